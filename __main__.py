"""The Pulumi program; `infra/program.py` tells the whole story."""

import signal

import pulumi

from core.declare import end
from infra.program import main

# Once a resource has failed the engine interrupts the program: Python would print where it was.
signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    main()
except pulumi.RunError as error:
    end(str(error))

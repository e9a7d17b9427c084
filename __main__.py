"""The Pulumi program's entry point; `infra/program.py` declares the resources."""

import signal

import pulumi

from core.declare import end
from infra.program import main

# The engine interrupts the program once a resource has failed; Python would print a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)


async def _run() -> None:
    try:
        await main()
    except pulumi.RunError as error:
        end(str(error))


pulumi.run(_run)

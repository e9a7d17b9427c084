"""Every Python of this image writes its stack to standard error when it gets SIGTERM.

So the log of a rank that hangs ends with its stack, where jobs/ finds it.
"""

import faulthandler
import signal

# By its descriptor: a program may have replaced sys.stderr. `chain`: it ends as it would have.
faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)

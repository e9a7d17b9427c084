"""How the program ends when it can't go on."""

import warnings
from typing import NoReturn

import pulumi

_TOLD = 32
"""By this exit status the language host knows that the person was told why.

After any other it adds an error of its own, about a program that exited
(https://github.com/pulumi/pulumi/blob/master/sdk/python/cmd/pulumi-language-python-exec).
"""


def end(why: str) -> NoReturn:
    """Tell the person why, and end the program, with nothing else that it has begun."""
    pulumi.log.error(why)
    # What Pulumi's SDK has begun and nobody waits for any more would be told, too.
    warnings.simplefilter("ignore", RuntimeWarning)
    raise SystemExit(_TOLD)

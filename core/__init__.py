"""What every other package stands on; it imports none of them.

`slipway`, the package in the trainer's image that leaves what is read here, can be imported, too.
"""

import sys

from core.paths import CHECKOUT

sys.path.append(str(CHECKOUT / "images/trainer"))

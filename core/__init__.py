"""What every other package stands on; it imports none of them."""

import sys

from core.paths import CHECKOUT

# For `slipway`, the package in the trainer's image that leaves what is read here.
sys.path.append(str(CHECKOUT / "images/trainer"))

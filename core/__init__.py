"""Utilities shared by all other packages; imports none of them."""

import sys

from core.paths import CHECKOUT

# For `slipway`, the package in the trainer's image, which writes the files that are read here.
sys.path.append(str(CHECKOUT / "images/trainer"))

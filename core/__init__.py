"""Utilities shared by all other packages, none of which this package imports."""

import sys

from core.paths import CHECKOUT

# For the package `slipway` in the trainer's image, which writes files that Slipway reads.
sys.path.append(str(CHECKOUT / "images/trainer"))

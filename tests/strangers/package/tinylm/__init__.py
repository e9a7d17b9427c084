"""tinylm: a tiny language model."""

__version__ = "0.3.1"

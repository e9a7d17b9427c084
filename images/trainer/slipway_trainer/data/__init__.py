"""Data sets, how they are read, and which rank trains on which sample."""

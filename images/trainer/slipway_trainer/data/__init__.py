"""Data sets: reading them, and assigning samples to ranks."""

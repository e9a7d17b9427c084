"""A training job as a value, and its manifest. Pure."""

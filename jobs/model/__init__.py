"""A training job as a value, and the manifest that it always stands for. Pure."""

"""Parts of a training loop, for the demos and your own programs."""

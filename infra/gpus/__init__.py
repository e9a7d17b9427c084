"""What makes the cluster's GPUs usable, and the wait until nodes offer them."""

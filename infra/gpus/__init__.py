"""What makes the cluster's GPUs usable, and the proof that they calculate."""

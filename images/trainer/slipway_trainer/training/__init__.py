"""What a training loop uses, the demos' and your own."""

"""Rules that find known mistakes in jobs before anything is created."""

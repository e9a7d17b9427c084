"""What is seen of a run, and what that means: its end, its cause and its result. Pure."""

"""A run that is waited for: what is seen of it, what that means, and its result."""

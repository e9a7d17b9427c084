"""`make setup`: the Python environment, then all tools that the stack's cluster needs."""

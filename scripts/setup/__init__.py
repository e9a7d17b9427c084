"""`make setup`: create the Python environment, then provide all tools that the stack needs."""

"""`make setup`: the Python environment, then every tool that the stack's cluster needs."""

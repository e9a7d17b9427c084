"""The images that jobs run in: their content, how they are built, and how they reach a node."""

"""Price tables, and estimates of a stack's cost."""

"""What the Makefile calls for a stack: up, preview, down, logs, env."""

"""What the Makefile calls for a stack: up, preview, down, rerun, logs, results and others."""

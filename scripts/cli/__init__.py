"""The command line of a stack: up, preview, down, rerun, logs, results and others."""

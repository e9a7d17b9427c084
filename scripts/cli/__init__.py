"""Commands that work on a stack: up, preview, down, rerun, logs, results and more."""

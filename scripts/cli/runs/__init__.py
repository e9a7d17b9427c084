"""Commands for the runs in a stack: results, logs, files, reports and comparisons."""

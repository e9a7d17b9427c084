"""Commands for a stack's runs: results, logs, files, reports and comparisons."""

"""What is known of a stack's runs: their results, logs, files, a report and a comparison."""

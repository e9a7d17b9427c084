"""Known mistakes in jobs, looked for before anything is made: a rule for each."""

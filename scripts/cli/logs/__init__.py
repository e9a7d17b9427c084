"""`make logs`: what a job's ranks print and have printed."""

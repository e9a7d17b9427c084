"""Commands: set-up, what the Makefile calls, and the offline stand-in."""

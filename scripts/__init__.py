"""Commands: setup, the Makefile targets, and the azure-native stub for offline use."""

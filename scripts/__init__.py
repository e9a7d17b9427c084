"""Commands: set-up, the Makefile's targets, and azure-native's stub for offline use."""

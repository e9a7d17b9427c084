"""Programs for setup and the Makefile's targets, and a stub for the azure-native plugin."""

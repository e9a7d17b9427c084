"""Waits until a cluster somewhere else answers, and its rights have arrived there."""

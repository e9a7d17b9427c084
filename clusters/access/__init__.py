"""Waits until a remote cluster answers and this account's rights are in effect."""

"""A registry over HTTP, and who logs in to it."""

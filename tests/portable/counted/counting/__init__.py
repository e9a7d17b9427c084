"""Numbers that are only printed."""

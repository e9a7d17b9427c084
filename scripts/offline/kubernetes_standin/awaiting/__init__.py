"""When an object counts as made: what is looked at, how long, and what is said at the end."""

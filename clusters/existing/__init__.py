"""What a stack has to know of a cluster that somebody else has made."""

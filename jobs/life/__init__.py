"""The life of a run as a resource: how it is submitted, changed, repeated, judged and removed."""

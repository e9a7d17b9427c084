"""Discover an elastic job's workers, and agree on the members of the next world."""

"""Discovery of an elastic job's workers, and agreement on the members of the next world."""

"""How the workers of an elastic job find each other, and agree on who is in the next world."""

"""Which workers of an elastic job train together, as they come to know it themselves. No torch.

`settings` says who a worker is and where the others are, each shows on its `board` which world it
is in, and `rendezvous` brings them into the next one.
"""

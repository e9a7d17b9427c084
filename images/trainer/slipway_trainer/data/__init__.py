"""Data sets, how they are read, and which rank trains on which sample.

`datasets` are in memory, `pictures` in files, which `shards` finds in tar archives. `ledger` shares
an epoch's samples out, and `index_service` hands a worker's share to its training loop.
"""

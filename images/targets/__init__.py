"""How an image gets to where a cluster's nodes have it: one module for each way.

A cluster names its way as `Cluster.image_target`, a map with a `kind`.
"""

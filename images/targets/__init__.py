"""Targets that transfer images to a cluster's nodes, one per module: `Cluster.image_target`."""

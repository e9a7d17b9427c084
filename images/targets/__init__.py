"""Targets that transfer images to a cluster's nodes, one module each: `Cluster.image_target`."""

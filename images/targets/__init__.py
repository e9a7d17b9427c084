"""The ways of an image to a cluster's nodes, one module each: `Cluster.image_target` names one."""

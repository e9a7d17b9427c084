"""All kinds of cluster behind one interface, `clusters.cluster.Kind`."""

"""All cluster kinds, behind one interface, `clusters.cluster.Kind`."""

"""Where training runs: every kind of cluster behind one interface, `clusters.cluster.Kind`."""

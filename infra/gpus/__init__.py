"""The device plugin for the cluster's GPUs, and waiting until nodes offer them."""

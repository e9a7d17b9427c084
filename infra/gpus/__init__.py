"""The device plugin for the cluster's GPUs, and the wait until nodes offer them."""

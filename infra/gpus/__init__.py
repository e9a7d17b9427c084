"""The device plugin for the cluster's GPUs, and a wait until the GPUs are allocatable."""

"""The device plugin for the cluster's GPUs, and a wait until the GPUs are allocatable."""

NAMESPACE = "slipway-gpu"  # only for the device plugin, which needs more rights than others
PLUGIN = "nvidia-device-plugin"  # the DaemonSet's name, and the plugin's image in `Cluster.images`

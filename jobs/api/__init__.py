"""The Kubernetes API as a run uses it: requests, watches and logs."""

"""A real one-node Kubernetes cluster on this machine, without a container engine.

Read `lifecycle.py` first: bringing the cluster up is an ordered list of actions, one module each.
The whole node lives in one network namespace, one mount namespace, one cgroup and two directories,
so that it can't meet anything else on the machine and removing it removes all of it.
"""

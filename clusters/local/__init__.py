"""Clusters that a command-line tool makes on this machine: kind's and minikube's."""

"""The common parts of kind's and minikube's clusters, created by a command-line tool."""

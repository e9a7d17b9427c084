"""The parts that kind and minikube share: clusters created by a command-line tool."""

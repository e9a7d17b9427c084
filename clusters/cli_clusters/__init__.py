"""Code shared by kind and minikube: clusters that a command-line tool creates."""

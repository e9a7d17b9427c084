"""What kind's and minikube's clusters have in common: a command line on this machine makes them."""

"""The parts of AKS on Azure Local: a cluster on a company's own machines, managed through Arc."""

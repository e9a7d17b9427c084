"""Sends what a pod's ranks report to MLflow, Weights & Biases or TensorBoard, beside the program.

The launcher starts `process`. Its `sender` reads the events that ranks append to a file, `figures`
makes metrics of them, and a sink in `mlflow` or `packages` takes these. `usage` reads the cgroup's.
"""

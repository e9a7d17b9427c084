"""Sends what a pod's ranks report to MLflow, W&B or TensorBoard, beside the program."""

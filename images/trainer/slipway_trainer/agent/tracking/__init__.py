"""Send the events of a pod's ranks to MLflow, W&B or TensorBoard, alongside the program."""

"""Sends what a pod's ranks report to MLflow, Weights & Biases or TensorBoard, beside the program.

`process` starts it as the launcher sees it, and `__main__` is that process. `sender` reads the
events that the ranks append to a file, `figures` turns them into metrics, and one of the sinks
`mlflow`, `wandb` and `tensorboard` takes these, with the files and the `dataset`. `usage` reads
what the container uses. Without SLIPWAY_TRACKING `process` alone is imported, and starts nothing.
"""

"""Sends what a pod's ranks report to MLflow, Weights & Biases or TensorBoard, beside the program.

`process` is what does so, a process that the launcher starts. `sender` reads the events that the
ranks append to a file, `figures` turns them into metrics, and one of the sinks in `mlflow`
and `packages` takes these, with the files and the data set. `usage` reads what the container uses.
"""

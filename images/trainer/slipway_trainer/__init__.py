"""Distributed training as it runs inside a job's containers; needs torch and nothing else."""

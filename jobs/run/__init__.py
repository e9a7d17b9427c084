"""The resources of a run: its submission, updates, retries, gate and removal."""

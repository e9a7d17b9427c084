"""A training job as a value, and the manifest that it stands for.

Pure: the same job always gives the same manifest, whatever the time, host or cluster.
"""

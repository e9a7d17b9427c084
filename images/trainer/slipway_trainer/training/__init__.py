"""What a training loop uses, the demos' and your own.

`distributed` joins the other ranks. `tracker` follows a rank's training and tells it as events,
with `timings` of each epoch; `validation` evaluates a model by `metrics`, and `goals` says when
that is good enough. `report` runs a rank's work and leaves its result or its failure behind.
"""

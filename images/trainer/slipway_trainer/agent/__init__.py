"""Runs beside a job's program, without torch: starts it, fetches inputs, copies its files out.

`launch` starts the program, in several processes through `processes`, which makes their messages
into one. `artifacts` copies out what the program leaves; `inputs` fetches what other jobs left.
"""

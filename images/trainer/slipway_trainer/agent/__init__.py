"""Runs beside a job's program, without torch: starts it, fetches inputs, copies its files out."""

"""The agent for a job's program, without torch: starts it, fetches inputs, copies files out."""

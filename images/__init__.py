"""The images that jobs run in: their content, their builds, and their transfer to nodes."""

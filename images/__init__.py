"""Images that jobs run in: their content, building them, and transferring them to nodes."""

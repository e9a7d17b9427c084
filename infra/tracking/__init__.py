"""Where runs are tracked: the settings, and the tracking server that a stack may have."""

"""Training jobs as values, and their manifests. Pure."""

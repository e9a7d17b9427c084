"""Training jobs as immutable values, and the manifests built from them."""

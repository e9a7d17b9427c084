"""Build images with docker, podman or buildah, once for each content."""

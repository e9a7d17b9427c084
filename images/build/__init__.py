"""Build images with docker, podman or buildah, only when their content has changed."""

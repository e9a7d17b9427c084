"""Builds images: with docker, podman or buildah, each content once."""

"""A stand-in for pulumi-kubernetes' plugin, for where that cannot be downloaded.

It serves the kinds of objects that this product declares (`kinds.yaml`) over server-side apply, and
refuses the rest by name. What it does follows the plugin's documentation and its observable
behavior (github.com/pulumi/pulumi-kubernetes, v4.34), including the form of the state, so that a
stack can change over to the real plugin.
"""

"""The Pulumi program and its components."""

"""The Pulumi program and what it is made of."""

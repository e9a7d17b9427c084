"""The local Pulumi provider: every resource that Slipway manages itself."""

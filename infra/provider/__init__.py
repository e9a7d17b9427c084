"""The local Pulumi provider for all resources that Slipway manages itself."""

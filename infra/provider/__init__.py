"""The local Pulumi provider of all resources that Slipway manages itself."""

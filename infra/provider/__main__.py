"""Entry point of `pulumi-resource-slipway`; the engine's address is its first argument."""

from infra.provider.provider import SlipwayProvider
from infra.provider.resources import handlers
from infra.provider.server import serve

VERSION = "0.1.0"

serve(lambda engine: SlipwayProvider(handlers(), engine), VERSION)

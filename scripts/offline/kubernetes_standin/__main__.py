"""Entry point of the stand-in plugin; the engine's address is its first argument."""

from infra.provider.server import serve
from scripts.offline.kubernetes_standin.kinds import SDK_VERSION
from scripts.offline.kubernetes_standin.server import Servicer, StandIn

serve(StandIn, f"{SDK_VERSION}+standin", Servicer)

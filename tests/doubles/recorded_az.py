"""Azure's CLI for tests: what it prints of an account with all that the stack `azure` needs.

Shapes: https://learn.microsoft.com/cli/azure/reference-index. It refuses every other command.
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ME = "8d4f5c0a-6b1e-4f6e-9a57-0c2f1b7e3d91"
_NAMESPACES = ("Compute", "ContainerRegistry", "ContainerService", "Insights", "ManagedIdentity",
               "Network", "OperationalInsights", "Storage")  # fmt: skip
_ANSWERS: Mapping[str, Any] = {
    "account show": {"tenantId": ME, "user": {"name": "me@slipway.test", "type": "user"}},
    "account list-locations": [{"name": "northeurope"}, {"name": "westeurope"}],
    "ad signed-in-user show": {"id": ME},
    "ad user get-member-groups": [{"displayName": "All", "id": "a group"}],
    "provider list": [
        {"namespace": f"Microsoft.{each}", "registrationState": "Registered"}
        for each in _NAMESPACES
    ],
    "vm list-skus": [
        {"name": "Standard_D4s_v5", "family": "standardDSv5Family", "restrictions": []},
        {"name": "Standard_NC4as_T4_v3", "family": "Standard NCASv3_T4 Family", "restrictions": []},
    ],
    "vm list-usage": [
        {"name": {"value": name}, "currentValue": "0", "limit": "100"}
        for name in ("cores", "lowPriorityCores", "standardDSv5Family", "Standard NCASv3_T4 Family")
    ],
}


def answers() -> dict[str, Any]:
    """Return what it prints, by the command, to be changed."""
    return copy.deepcopy(dict(_ANSWERS))


def install(directory: Path, answers: Mapping[str, Any] = _ANSWERS) -> None:
    """Write `az` into a directory; a command without an answer is refused."""
    cases = "".join(
        f"'{command} '*) cat <<'END'\n{json.dumps(answer)}\nEND\n;;\n"
        for command, answer in answers.items()
    )
    refused = '*) echo "the double of az has no answer to $*" >&2; exit 1;;\n'
    program = directory / "az"
    program.write_text(f'#!/bin/sh\ncase "$* " in\n{cases}{refused}esac\n')
    program.chmod(0o755)

"""A file for a stack whose Pulumi.<stack>.yaml is missing, for as long as it is taken down.

The cluster's settings are still in the stack's state, or in its history. Pulumi itself would create
the file with nothing but its encryption salt in it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from clusters import CLUSTERS
from core.paths import CHECKOUT
from scripts.cli.backend import exists, exported, latest_settings, rows
from scripts.cli.config import check, own, template
from scripts.cli.recovery import repair_files


@contextmanager
def temporary_config(
    stack: str, echo: Callable[[str], None], root: Path = CHECKOUT
) -> Iterator[None]:
    """Provide the stack's file; one that did not exist before is removed afterwards.

    Args:
        stack: Its name.
        echo: Prints lines.
        root: The checkout.

    Raises:
        StackFileError: the stack does not exist: it has neither a file nor a state.
    """
    file = own(stack, root)
    if file.exists() or not exists(stack):
        check(stack, root)
        yield
        return
    repair_files(stack)
    state = exported(stack)
    cluster = cluster_in(state) or latest_settings(stack).get("slipway:cluster")
    try:
        if isinstance(cluster, dict):
            echo(f"{file.name} is missing; using the cluster that the stack used last.")
            file.write_text(yaml.safe_dump({"config": {"slipway:cluster": cluster}}))
        elif template(stack, root).exists():
            shutil.copyfile(template(stack, root), file)
        elif rows(state, "resources"):
            echo(
                f"{file.name} is missing, and neither the state nor the history of {stack} says "
                "which cluster it had. The resources in its state are destroyed; whether anything "
                "else is left in that cluster can't be checked."
            )
        yield
    finally:
        file.unlink(missing_ok=True)


def cluster_in(export: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what an exported state has of the stack's own cluster; None without one. Pure.

    One that an interrupted run had begun to make is among what is pending.
    """
    own = {kind.own.type: name for name, kind in CLUSTERS.items() if kind.own is not None}
    pending = [each["resource"] for each in rows(export, "pending_operations")]
    for resource in [*rows(export, "resources"), *pending]:
        if resource["type"] in own:
            name = resource["urn"].rsplit("::", 1)[-1]
            return {"kind": own[resource["type"]], "name": name}
    return None

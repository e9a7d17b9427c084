"""Check placeholders, programs and the login before an update, and leftovers after a destroy."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pulumi
from pydantic_core import to_jsonable_python

from clusters.azure.settings import AzureSettings
from clusters.cluster import Remains
from core.context import show_in_summary
from core.paths import CHECKOUT
from core.problem import Path, Problem, located, quote
from core.process import CommandFailed, run

KEY = "slipway:cluster"
Account = Callable[[Mapping[str, Any]], Iterable[Problem]]
_MARKED = re.compile(r"(\w+): \[?(.+?)\]? # yours: (.+)")
"""Matches a line in stacks/*.yaml with a placeholder: the key, the value, and what to set."""
_TOOLS = {
    "az": "install the Azure CLI, https://learn.microsoft.com/cli/azure/install-azure-cli, and log "
    "in: az login",
    "kubelogin": "install it: az aks install-cli, or https://azure.github.io/kubelogin",
}


def before_update(
    settings: AzureSettings,
    template: str,
    *,
    pushes: bool = False,
    account: Account = lambda _: (),
) -> None:
    """Raise `pulumi.RunError` with all problems that an update would have; in a preview, only warn.

    `template` names the file in stacks/ that marks the placeholders. `pushes` is true if images are
    pushed with the Azure CLI's login. `account` receives the output of `az account show` and
    returns problems with the account; it is called only if there are no other problems.
    """
    uses_az = pushes or (settings.login == "azurecli" and not settings.admin_kubeconfig)
    problems = [*placeholders(settings, template), *missing(settings, uses_az=uses_az)]
    if not problems and uses_az:
        problems = [*login(settings, account)]
    if not problems:
        return
    lines = "".join(f"\n  {each}" for each in problems)
    if not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(
            f"nothing was changed, because a cluster on Azure requires the following:{lines}\n"
            f"Correct Pulumi.{pulumi.get_stack()}.yaml, install what is missing, and run the "
            "command again."
        )
    show_in_summary(f"`up` will fail for these reasons:{lines}", pulumi.log.warn)


def login(settings: AzureSettings, account: Account) -> Iterator[Problem]:
    """Yield a problem if `az` is not logged in, or else problems with the current account."""
    try:
        shown = az(settings, "account", "show")
    except CommandFailed as error:
        tenant = "" if settings.tenant is None else f" --tenant {settings.tenant}"
        text = f"can't be used with the current login: {' '.join(str(error).split())}; "
        yield Problem(f"{KEY}.subscription", f"{text}run `az login{tenant}`")
        return
    if settings.tenant is not None and settings.tenant.lower() != shown["tenantId"].lower():
        text = f"{settings.tenant} is not the subscription's tenant, {shown['tenantId']}"
        yield Problem(f"{KEY}.tenant", f"{text}; set that tenant, or a different subscription")
    yield from account(shown)


def placeholders(settings: AzureSettings, template: str) -> Iterator[Problem]:
    """Yield each setting that still has a placeholder as its value, and what to replace it with."""
    text = (CHECKOUT / "stacks" / f"{template}.yaml").read_text(encoding="utf-8")
    marked = {(key, value): own for key, value, own in _MARKED.findall(text)}
    for path, value in _texts(to_jsonable_python(settings, by_alias=True)):
        (*_, key) = (part for part in path if isinstance(part, str))
        if own := marked.get((key, value)):
            text = f"{quote(value)} is a placeholder; replace it with {own}"
            yield Problem(located(KEY, path), text)


def missing(settings: AzureSettings, *, uses_az: bool) -> Iterator[Problem]:
    """Yield each required program that is not on PATH, with installation instructions."""
    needed = {"az": uses_az, "kubelogin": not settings.admin_kubeconfig}
    for name, is_needed in needed.items():
        if is_needed and shutil.which(name) is None:
            yield Problem(name, f"is required but not on PATH; {_TOOLS[name]}")


def remains(settings: AzureSettings, stack: str) -> Remains:
    """Return what a destroyed stack left on Azure, or a note that `az` could not list it."""
    kind = "resource groups" if settings.own_groups else "Azure resources"
    try:
        return {kind: [*_left(settings, stack)]}
    except CommandFailed as error:
        why = " ".join(str(error).split())
        return {f"{kind} known to remain (not checked on Azure: {why})": []}


def _left(settings: AzureSettings, stack: str) -> Iterator[str]:
    """Yield the stack's remaining groups or, in an existing group, its remaining resources."""
    tags = {"slipway-cluster": settings.name, "slipway-stack": stack}

    def is_ours(thing: Mapping[str, Any]) -> bool:
        # An earlier version did not set the second tag.
        return tags.items() <= {"slipway-stack": stack, **(thing.get("tags") or {})}.items()

    if not settings.own_groups:
        listed = az(settings, "resource", "list", "--resource-group", settings.group)
        for each in filter(is_ours, listed):
            yield f"{each['type']} {each['name']}: az resource delete --ids {each['id']}"
        return
    groups = {each["name"]: each for each in az(settings, "group", "list")}
    for group in filter(None, map(groups.get, settings.own_groups)):
        # AKS itself creates the group for the nodes, and may not tag it.
        if not is_ours(group) and f"/{settings.group}/" not in (group.get("managedBy") or ""):
            return  # another party's, and so is a cluster in it
        command = f"az group delete --name {group['name']} --subscription {settings.subscription}"
        yield f"resource group {group['name']}: {command}"


def az(settings: AzureSettings, *words: str) -> Any:
    """Run the Azure CLI and return the document that it prints, or raise `CommandFailed`."""
    program = shutil.which("az")
    if program is None:
        raise CommandFailed("`az` is not installed")
    options = ("--subscription", settings.subscription, "--output", "json")
    return json.loads(run(program, *words, *options, limit=60))


def _texts(document: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each string in a document with its path."""
    if isinstance(document, str):
        yield path, document
    elif isinstance(document, dict | list):
        inside = document.items() if isinstance(document, dict) else enumerate(document)
        for part, each in inside:
            yield from _texts(each, (*path, part))

"""What an update on Azure refuses before it declares anything, and what a destroy has left."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.azure.checks import before_update, remains
from clusters.kinds import CLUSTERS
from core.validation import check as read
from tests.doubles import recorded_az
from tests.engine.azure_stack import own
from tests.unit.shell_program import shell_program

ME = "11111111-2222-3333-4444-555555555555"
Az = Callable[[str], Path]
STACKS = {"azure": "aks", "azure-stack": "azure-stack"}


def template(stack: str, root: Path) -> dict[str, Any]:
    document = yaml.safe_load((root / "stacks" / f"{stack}.yaml").read_text())
    section: dict[str, Any] = document["config"]["slipway:cluster"]
    return section


def settings(stack: str, section: dict[str, Any]) -> Any:
    said = {key: value for key, value in section.items() if key != "kind"}
    kind = CLUSTERS[STACKS[stack]].settings.load()
    found = read(kind, said, "slipway:cluster", base={"name": stack})
    assert not isinstance(found, list), list(map(str, found))
    return found


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no programs but those that a test writes here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pulumi, "get_stack", lambda: "azure")
    return tmp_path


@pytest.mark.parametrize(
    ("stack", "keys"),
    [
        ("azure", ["api.authorizedRanges[0]", "admins.users[0]", "budget.emails[0]"]),
        ("azure-stack", ["customLocation", "sshKey", "entra.adminGroups[0]", "registry.server"]),
    ],
)
@pytest.mark.usefixtures("bare")
def test_an_update_refuses_placeholders_and_missing_programs_all_at_once(
    stack: str, keys: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError) as caught:
        before_update(settings(stack, template(stack, root)), stack)
    told = str(caught.value)
    places = re.findall(r"slipway:cluster\.(\S+): .* is a placeholder; replace it with ", told)
    assert places == ["subscription", *keys]
    assert "what `az account show --query id` prints" in told
    assert "az: is required but not on PATH; install the Azure CLI" in told
    assert "kubelogin: is required but not on PATH; install it: az aks install-cli" in told
    assert "Correct Pulumi.azure.yaml" in told


def test_a_preview_warns_of_the_same_and_goes_on(
    root: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell_program(bare / "az", "")
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    before_update(settings("azure", template("azure", root)), "azure")
    (warning,) = said
    assert "slipway:cluster.subscription" in warning
    assert "kubelogin: is required" in warning
    assert "az: is required" not in warning


@pytest.mark.parametrize(
    ("stack", "change", "pushes"),
    # Also where only images are pushed with that login.
    [*((stack, {}, False) for stack in STACKS), ("azure", {"adminKubeconfig": True}, True)],
)
def test_an_update_refuses_who_is_not_logged_in_to_the_subscription(
    stack: str, change: dict[str, Any], pushes: bool, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{bare}:/usr/bin:/bin")
    recorded_az.install(bare, {})
    shell_program(bare / "kubelogin", "")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError, match=r"subscription: can.t be used .* run `az login`"):
        before_update(settings(stack, own(stack, **change)), stack, pushes=pushes)


@pytest.mark.parametrize(
    ("change", "pushes", "names"),
    [
        ({}, False, ["az", "kubelogin"]),
        ({"login": "workloadidentity"}, False, ["kubelogin"]),
        ({"login": "workloadidentity"}, True, ["az", "kubelogin"]),
        ({"adminKubeconfig": True}, False, []),
        ({"adminKubeconfig": True}, True, ["az"]),
    ],
)
@pytest.mark.usefixtures("bare")
def test_a_program_is_only_asked_for_where_something_uses_it(
    change: dict[str, Any],
    pushes: bool,
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    before_update(settings("azure", {**template("azure", root), **change}), "azure", pushes=pushes)
    assert re.findall(r"(\w+): is required but not on PATH", said[0]) == names


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Az:
    """Return what installs an `az` that runs a script, and notes its arguments in a file."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(script: str) -> Path:
        shell_program(tmp_path / "az", f'echo "$@" >> {tmp_path}/called\n{script}')
        return tmp_path / "called"

    return install


def of(stack: str, root: Path, **changes: Any) -> Any:
    return settings(stack, {**template(stack, root), "subscription": ME, **changes})


OURS = {"slipway-cluster": "azure", "slipway-stack": "slipway/azure"}
GROUP, NODES = "slipway-azure", "slipway-azure-nodes"


@pytest.mark.parametrize(
    ("tags", "cluster", "left"),
    [
        (OURS, GROUP, [GROUP, NODES]),
        ({"slipway-cluster": "azure"}, GROUP, [GROUP, NODES]),  # of an earlier version
        ("missing", GROUP, [NODES]),
        # Of somebody else, of another project's stack, and with another cluster's nodes.
        (None, GROUP, []),
        ({**OURS, "slipway-stack": "other/azure"}, GROUP, []),
        (OURS, "theirs", [GROUP]),
    ],
)
def test_a_group_that_is_left_comes_with_its_remedy_if_it_is_ours(
    tags: Any, cluster: str, left: list[str], root: Path, az: Az
) -> None:
    of_cluster = f"/subscriptions/{ME}/resourcegroups/{cluster}/providers/a/managedClusters/b"
    nodes = {"name": NODES, "managedBy": of_cluster, "tags": None}
    group = [] if tags == "missing" else [{"name": GROUP, "managedBy": None, "tags": tags}]
    called = az(f"cat <<'END'\n{json.dumps([nodes, *group])}\nEND")
    remedies = [
        f"resource group {each}: az group delete --name {each} --subscription {ME}" for each in left
    ]
    assert remains(of("azure", root), "slipway/azure") == {"resource groups": remedies}
    assert called.read_text() == f"group list --subscription {ME} --output json\n"


def test_in_an_existing_group_tags_say_what_is_left(root: Path, az: Az) -> None:
    listed = [
        {"id": "/a", "type": "Network", "name": "a", "tags": {"slipway-cluster": "azure-stack"}},
        {"id": "/b", "type": "Network", "name": "b", "tags": {"slipway-cluster": "other"}},
        {"id": "/c", "type": "Network", "name": "c", "tags": None},
    ]
    az(f"cat <<'END'\n{json.dumps(listed)}\nEND")
    assert remains(of("azure-stack", root, resourceGroup="ours"), "slipway/it") == {
        "Azure resources": ["Network a: az resource delete --ids /a"]
    }


@pytest.mark.parametrize(
    ("group", "kind"), [(None, "resource groups"), ("ours", "Azure resources")]
)
def test_nothing_is_claimed_of_azure_when_it_cannot_be_asked(
    group: str | None, kind: str, root: Path, az: Az, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = az("echo please run az login >&2; exit 1")
    wanted = of("azure-stack", root, **({} if group is None else {"resourceGroup": group}))
    ((text, found),) = remains(wanted, "slipway/it").items()
    assert text.startswith(f"{kind} known to remain (not checked on Azure: `")
    assert "please run az login" in text
    assert found == []
    monkeypatch.setenv("PATH", str(called.parent / "empty"))
    (text,) = remains(wanted, "slipway/it")
    assert text == f"{kind} known to remain (not checked on Azure: `az` is not installed)"

"""Properties, secrets, names and settings of the stand-in."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi.provider.experimental.property_value import PropertyValue

from core.values import UNKNOWN, wrap_map
from scripts.offline.kubernetes_standin import settings
from scripts.offline.kubernetes_standin.applying import leave_ignored
from scripts.offline.kubernetes_standin.decoding import decode
from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.kubeconfig import Kubeconfig
from scripts.offline.kubernetes_standin.manifest import has_unknown, to_object, to_properties
from scripts.offline.kubernetes_standin.naming import autonamed, generated_name
from scripts.offline.kubernetes_standin.ownership import (
    field_manager,
    is_managed_by,
    with_owner,
    yields,
)
from scripts.offline.kubernetes_standin.secrecy import conceal, mask
from scripts.offline.kubernetes_standin.unserved import (
    Unserved,
    refuse_component,
    refuse_patch_or_list,
)

_URN = "urn:pulumi:dev::project::kubernetes:core/v1:ConfigMap::name"


def test_properties_and_objects_are_the_same_thing_in_two_forms() -> None:
    obj = {"a": {"x-kubernetes-int-or-string": True}, "l": [1, 1.5, "s", False, UNKNOWN], "e": {}}
    properties = to_properties(obj)
    inner = properties["a"].value
    assert isinstance(inner, dict) or "x_kubernetes_int_or_string" in str(inner)
    assert to_object(properties) == obj
    assert to_object(wrap_map({"a": None, "b": {"c": None}})) == {"b": {}}
    assert has_unknown(obj)
    assert not has_unknown({"a": ["b"]})


def test_what_came_in_as_a_secret_stays_one() -> None:
    given = {
        "spec": PropertyValue(
            {
                "password": PropertyValue("hunter2", is_secret=True),
                "list": PropertyValue([PropertyValue("hunter2", is_secret=True)]),
                "open": PropertyValue("seen"),
            }
        )
    }
    live = {"spec": {"password": "hunter2", "list": ["default", "hunter2"], "open": "seen"}}
    outputs = conceal(to_properties(live), given)
    spec: Any = outputs["spec"].value
    assert not outputs["spec"].is_secret
    assert {name: value.is_secret for name, value in spec.items()} == {
        "password": True,
        "list": True,
        "open": False,
    }


def test_a_secrets_content_is_secret_whatever_came_in() -> None:
    live = {
        "kind": "Secret",
        "metadata": {
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{hunter2}"}
        },
        "data": {"a": "aHVudGVyMg=="},
        "stringData": {"a": "hunter2"},
    }
    outputs = conceal(to_properties(live), {})
    assert [name for name, value in outputs.items() if value.is_secret] == [
        "metadata",
        "data",
        "stringData",
    ]


def test_the_api_servers_words_are_shown_without_the_secrets() -> None:
    encoded = base64.b64encode(b"hunter2").decode()
    given = {
        "data": PropertyValue({"a": PropertyValue("hunter2")}, is_secret=True),
        "open": PropertyValue("invalid"),
    }
    text = f'"hunter2" or {encoded} is invalid'
    assert mask(text, given) == '"[secret]" or [secret] is invalid'


def test_a_generated_name_depends_on_the_seed_alone() -> None:
    assert generated_name("web", b"1") == generated_name("web", b"1")
    assert generated_name("web", b"1") != generated_name("web", b"2")
    name, suffix = generated_name("web", b"1").split("-")
    assert name == "web"
    assert len(suffix) == 8
    assert autonamed({"metadata": {"annotations": {"a": "b"}}}, "n")["metadata"] == {
        "name": "n",
        "annotations": {"a": "b", "pulumi.com/autonamed": "true"},
    }


def test_a_field_manager_is_the_same_in_every_run_and_another_for_another_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///mine")
    mine = field_manager(_URN)
    assert mine == field_manager(_URN)
    assert mine != field_manager(_URN + "2")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///yours")
    assert field_manager(_URN) != mine


def test_a_bare_object_is_marked_and_another_is_left_as_it_is() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    assert with_owner(bare, "me")["metadata"]["annotations"] == {
        "pulumi.com/patchFieldManager": "me"
    }
    labelled = {**bare, "metadata": {"name": "n", "labels": {"a": "b"}}}
    assert with_owner(labelled, "me") == labelled


def _managed(manager: str, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return {"metadata": {"managedFields": [entry]}, "spec": {"replicas": 3, "paused": True}}


def test_changes_by_hand_yield_and_those_of_a_controller_do_not() -> None:
    assert yields(_managed("kubectl-edit", "Update", {}), "kubectl-edit")
    assert yields(_managed("pulumi-kubernetes-1", "Update", {}), "pulumi-kubernetes-1")
    assert not yields(_managed("pulumi-kubernetes-1", "Apply", {}), "pulumi-kubernetes-1")
    assert not yields(_managed("autoscaler", "Update", {}), "autoscaler")
    assert is_managed_by(_managed("me", "Apply", {}), "me")
    assert not is_managed_by(_managed("me", "Update", {}), "me")


def test_an_ignored_field_stays_as_it_is_with_whoever_holds_it() -> None:
    wanted = {"spec": {"replicas": 1, "paused": False}}
    live = _managed("autoscaler", "Update", {"f:spec": {"f:replicas": {}}})
    assert leave_ignored(wanted, live, "me", ["spec.replicas"]) == {"spec": {"paused": False}}
    mine = _managed("me", "Apply", {"f:spec": {"f:replicas": {}, "f:paused": {}}})
    kept = leave_ignored(wanted, mine, "me", ["spec.replicas", "spec.absent"])
    assert kept == {"spec": {"replicas": 3, "paused": False}}
    assert leave_ignored(wanted, None, "me", ["spec.replicas"]) == wanted


def test_types_and_ids_are_read() -> None:
    assert Kind.of_type("kubernetes:core/v1:Namespace") == Kind("", "v1", "Namespace")
    assert Kind.of_type("kubernetes:kubeflow.org/v1:PyTorchJob").api_version == "kubeflow.org/v1"
    place = Place.of_id(Kind("", "v1", "ConfigMap"), "n/x")
    assert (place.namespace, place.name, str(place)) == ("n", "x", "ConfigMap n/x")
    assert Place.of_id(Kind("", "v1", "Namespace"), "x").namespace is None


@pytest.mark.parametrize(
    "type_token",
    [
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:helm.sh/v4:Chart",
        "kubernetes:kustomize/v2:Directory",
        "kubernetes:yaml/v2:ConfigFile",
    ],
)
def test_components_are_refused_by_name(type_token: str) -> None:
    with pytest.raises(Unserved, match=type_token):
        refuse_component(type_token)


def test_patches_and_lists_are_refused_and_kinds_of_such_names_are_not() -> None:
    refuse_component("kubernetes:apps/v1:Deployment")
    with pytest.raises(Unserved, match="DeploymentPatch"):
        refuse_patch_or_list("kubernetes:apps/v1:DeploymentPatch", {"kind": "Deployment"})
    with pytest.raises(Unserved, match="PodList"):
        refuse_patch_or_list("kubernetes:core/v1:PodList", {"kind": "PodList", "items": []})
    refuse_patch_or_list("kubernetes:x.io/v1:WaitList", {"kind": "WaitList", "spec": {}})


def test_every_setting_that_is_not_served_is_named_at_once() -> None:
    given = {
        "kubeconfig": UNKNOWN,
        "namespace": "n",
        "version": "4.34.2",
        "enableServerSideApply": "false",
        "renderYamlToDirectory": "/x",
        "helmReleaseSettings": "",
        "madeUp": "1",
    }
    problems = settings.refused(given)
    assert sorted(problems) == ["enableServerSideApply", "madeUp", "renderYamlToDirectory"]


def test_switches_come_from_the_program_and_then_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    assert settings.Settings.of({}).delete_unreachable
    assert not settings.Settings.of({"deleteUnreachable": "false"}).delete_unreachable


def _kubeconfig(server: str, **user: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        ({"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, ("clusterIdentifier",)),
        ({}, {"clusterIdentifier": "b"}, ()),
        (
            {"clusterIdentifier": "a", "kubeconfig": _kubeconfig("https://1")},
            {"clusterIdentifier": "a", "kubeconfig": UNKNOWN},
            (),
        ),
        ({"kubeconfig": "x"}, {"kubeconfig": UNKNOWN}, ("kubeconfig",)),
        (
            {"kubeconfig": _kubeconfig("https://1")},
            {"kubeconfig": _kubeconfig("https://2")},
            ("kubeconfig",),
        ),
        (
            {"kubeconfig": _kubeconfig("https://1", token="a")},
            {"kubeconfig": _kubeconfig("https://1", token="b")},
            (),
        ),
    ],
)
def test_a_provider_is_replaced_only_for_another_cluster(
    old: dict[str, Any], new: dict[str, Any], replaces: tuple[str, ...]
) -> None:
    found = settings.compare(old, new, UNKNOWN)
    assert found.changed
    assert found.replaces == replaces


def test_a_kubeconfig_may_be_a_path_whose_own_paths_count_from_it(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    file = tmp_path / "config"
    file.write_text(
        _kubeconfig("https://1").replace(
            "server: https://1", "server: https://1\n    certificate-authority: ca.crt"
        )
    )
    loaded = Kubeconfig.load(str(file))
    cluster: Any = loaded.active_cluster
    assert cluster["certificate-authority"] == str(tmp_path / "ca.crt")
    assert loaded.namespace == "default"


@pytest.mark.parametrize(
    ("content", "context", "said"),
    [
        ("a: [\n", None, "no valid YAML in line"),
        ("a: 1\nb: 2\n", None, "has no contexts"),
        (_kubeconfig("https://1"), "other", "no context 'other'; there are: c"),
        ("/nowhere/config", None, "/nowhere/config can't be read"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    content: str, context: str | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Kubeconfig.load(content, context)


def test_embedded_keys_are_never_written_to_a_file() -> None:
    data = base64.b64encode(b"not really a key").decode()
    document = _kubeconfig(
        "https://1", **{"client-certificate-data": data, "client-key-data": data}
    )
    configuration: Any = Kubeconfig.load(document).client_configuration()
    assert configuration.cert_file.startswith("/proc/self/fd/")
    assert Path(configuration.key_file).read_bytes() == b"not really a key"


def test_yaml_is_decoded_into_objects() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, x: 2024-01-02}\n"
        "---\n---\napiVersion: v1\nkind: B\nmetadata: {namespace: own}\n"
    )
    first, second = decode(text, "given", None)
    assert first == {
        "apiVersion": "v1",
        "kind": "A",
        "x": "2024-01-02",
        "metadata": {"namespace": "given"},
    }
    assert second["metadata"] == {"namespace": "own"}
    with pytest.raises(ValueError, match="no object with apiVersion"):
        decode("just text", None, None)
    with pytest.raises(ValueError, match="no valid YAML"):
        decode("a: [", None, None)

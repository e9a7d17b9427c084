"""The data of an older Kubernetes is copied before a newer one gets it, or is refused unchanged."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters.embedded import supervisor
from clusters.embedded.layout import Layout
from clusters.embedded.lifecycle import older_versions, taken_over
from core.toolchain import Tool


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster with data."""
    made = Layout(tmp_path / "dev")
    (made.directory / "etcd").mkdir(parents=True)
    (made.directory / "etcd" / "db").write_text("old")
    return made


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The components that were stopped, in order."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(supervisor, "stop", lambda _layout, *names: found.append(names))
    return found


@pytest.fixture(autouse=True)
def _provided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes v1.37.2 is what set-up provides."""
    found = Tool("kube-apiserver", Path("/kube-apiserver"), "v1.37.2")
    monkeypatch.setattr("core.toolchain.tool", lambda _name: found)


def test_data_without_a_record_is_copied_once_and_a_failed_takeover_says_how_to_go_back(
    layout: Layout, stopped: list[tuple[str, ...]]
) -> None:
    assert older_versions(layout) == ["v1.34"]
    data, copy = layout.directory / "etcd", layout.directory / "etcd-v1.34"

    def fail(content: str) -> None:
        with taken_over(layout):
            # Nothing writes while it is copied.
            assert stopped[-1] == ("kube-apiserver", "etcd")
            assert layout.written_by.read_text() == "v1.34 v1.37.2"
            (data / "db").write_text(content)
            raise TimeoutError("the API server is not ready")

    for content in ("half new", "newer"):
        with pytest.raises(RuntimeError) as failed:
            fail(content)
        assert str(failed.value).startswith("the API server is not ready\nKubernetes v1.37.2 did ")
        assert f"rm -r {data} && mv {copy} {data} && rm {layout.written_by}" in str(failed.value)
        assert (copy / "db").read_text() == "old"
    with taken_over(layout):
        pass
    assert layout.written_by.read_text() == "v1.37.2"
    assert older_versions(layout) == []


@pytest.mark.parametrize("free", [2**30, 2**31])
def test_without_room_for_the_copy_the_older_version_goes_on(
    free: int, layout: Layout, stopped: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def copytree(_data: Path, copy: Path) -> None:
        copy.mkdir()
        raise OSError(28, "No space left on device")  # what was free is used by something else

    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr("shutil.copytree", copytree)
    monkeypatch.setattr(supervisor, "run", lambda _layout, names: stopped.remove(names[::-1]))
    why = "1.0 GiB are free, but 1.0 GiB are needed" if free == 2**30 else "No space left on device"
    with pytest.raises(RuntimeError, match=f"{why}. Nothing was changed"), taken_over(layout):
        pytest.fail("it was brought up")
    assert [each.name for each in layout.directory.iterdir()] == ["etcd"]
    assert stopped == []


def test_another_patch_and_a_new_cluster_need_no_copy(
    layout: Layout, stopped: list[tuple[str, ...]]
) -> None:
    layout.written_by.write_text("v1.37.1")
    with taken_over(layout):
        assert layout.written_by.read_text() == "v1.37.2"
    new = Layout(layout.directory.parent / "new")
    new.directory.mkdir()
    with taken_over(new):
        # Before etcd writes anything: else a create that is interrupted would look like an old one.
        assert new.written_by.read_text() == "v1.37.2"
    assert stopped == []
    assert [*layout.directory.glob("etcd-*")] == []


@pytest.mark.parametrize(
    ("written", "has"),
    [("v1.38.0", "v1.38.0"), ("v1.33.9", "v1.33.9"), ("v1.34 v1.38.0", "v1.38.0")],
)
def test_data_that_is_newer_or_too_old_is_refused_before_anything_changes(
    layout: Layout, stopped: list[tuple[str, ...]], written: str, has: str
) -> None:
    layout.written_by.write_text(written)
    told = rf"contains data from Kubernetes {has}, but v1\.37\.2 accepts"
    with pytest.raises(RuntimeError, match=told):
        older_versions(layout)
    with pytest.raises(RuntimeError, match="Nothing was changed"), taken_over(layout):
        pytest.fail("it was brought up")
    assert layout.written_by.read_text() == written
    assert stopped == []

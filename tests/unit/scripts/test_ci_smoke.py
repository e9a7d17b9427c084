"""A smoke run: a scratch copy of the checkout, an exit status for each way to end, and JUnit."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kinds import ClusterSettings, read_cluster
from scripts import ci_smoke
from scripts.scratch import Scratch

_MAKEFILE = """\
.PHONY: up smoke down
up smoke down:
\t@echo "$@ $(STACK)" >> ../commands
\t@test ! -e $@-hangs || sleep 30
\t@test -z "$(JUNIT)" || cp checks.xml "$(JUNIT)"
\t@test ! -e $@-is-broken
results:
\t@cat results.json
"""
_CHECKS = '<testsuites><testsuite name="pytest" tests="66"/></testsuites>'
_SUCCEEDED = {"state": "Succeeded", "gate": "passed"}


@pytest.fixture
def scratch(copy_of: Callable[[dict[str, str]], Scratch]) -> Scratch:
    """A copy of a checkout with commands that do as its files say."""
    results = json.dumps({"jobs": {"mine": _SUCCEEDED}})
    return copy_of({"Makefile": _MAKEFILE, "checks.xml": _CHECKS, "results.json": results})


def commands(scratch: Scratch) -> list[str]:
    """Return what was run in the copy."""
    return (scratch.directory / "commands").read_text().split("\n")[:-1]


@pytest.mark.parametrize("broken", [None, "up", "smoke", "down"])
def test_a_run_always_goes_down_and_passes_only_if_all_steps_did(
    scratch: Scratch, broken: str | None
) -> None:
    if broken is not None:
        (scratch.checkout / f"{broken}-is-broken").touch()
    (scratch.checkout / "checks.xml").write_text(_CHECKS[:20])  # they were cut off
    summary = ci_smoke.run_steps(scratch, "kind")
    assert summary.checks is None
    ran = ["up", "down"] if broken == "up" else ["up", "smoke", "down"]
    assert commands(scratch) == [f"{name} kind" for name in ran]
    assert [step.name for step in summary.steps] == ran
    assert summary.status == (0 if broken is None else 1)
    root = summary.junit().getroot()
    assert root is not None
    failed = [case.get("name") for case in root.iterfind(".//failure/..")]
    assert failed == ([] if broken is None else [broken])


@pytest.mark.parametrize(
    ("job", "status"),
    [
        ({"state": "Failed", "gate": ""}, 125),
        ({"state": "Succeeded", "gate": "missed"}, 125),
        # The stack failed, and the job with it or before it.
        ({"state": "no result", "gate": ""}, 1),
        (_SUCCEEDED, 1),
    ],
)
def test_a_job_that_failed_has_another_status_than_a_stack_that_did(
    scratch: Scratch, job: dict[str, Any], status: int
) -> None:
    (scratch.checkout / "up-is-broken").touch()
    (scratch.checkout / "results.json").write_text(json.dumps({"jobs": {"mine": job}}))
    summary = ci_smoke.run_steps(scratch, "dev")
    assert summary.status == status
    assert ("mine" in summary.steps[0].outcome) is (status == 125)


@pytest.mark.parametrize("step", ["up", "smoke"])
def test_a_run_past_its_time_goes_down_all_the_same_and_has_its_jobs(
    step: str, scratch: Scratch
) -> None:
    (scratch.checkout / f"{step}-hangs").touch()
    summary = ci_smoke.run_steps(scratch, "dev", timeout=2.0)
    assert (summary.status, summary.jobs) == (124, {"mine": _SUCCEEDED})
    assert commands(scratch)[-1] == "down dev"


def test_a_stopped_run_goes_down(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Scratch.run

    def stopped(self: Scratch, command: str, limit: float, *, show: bool = False) -> object:
        if "smoke" in command:
            raise SystemExit(143)
        return run(self, command, limit, show=show)

    monkeypatch.setattr(Scratch, "run", stopped)
    summary = ci_smoke.run_steps(scratch, "dev")
    assert [step.name for step in summary.steps] == ["up", "stopped", "down"]
    assert summary.status == 143


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dev", "--timeout", "soon"], "'soon' is not a duration such as 90s, 20m or 1h"),
        (["dev", "--json", "no/such/file"], "the directory no/such does not exist; create it"),
    ],
)
def test_wrong_usage_makes_nothing(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.argv", ["scripts/ci-smoke", *arguments])
    monkeypatch.setattr(Scratch, "copy_of", lambda _source: pytest.fail("it made a copy"))
    with pytest.raises(SystemExit, match="2"):
        ci_smoke.main()
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cluster", "is_named"),
    [
        ("{kind: kind}", True),
        ("{kind: minikube}", True),
        ("{kind: kind, name: mine}", False),
        ("{kind: kind, adopt: true}", False),
        ("{kind: embedded}", False),
        ("wrong", False),
    ],
)
def test_a_cluster_that_a_tool_knows_by_its_name_alone_has_one_of_its_own(
    cluster: str, is_named: bool, copy_of: Callable[[dict[str, str]], Scratch]
) -> None:
    text = f"config: {{'slipway:cluster': {cluster}, other: {{on: [failed]}}}}"
    scratch = copy_of({"stacks/mine.yaml": text})
    ci_smoke.name_cluster(scratch, "mine")
    written = (scratch.checkout / "stacks/mine.yaml").read_text()
    assert (scratch.name in written) is (written != text) is is_named
    if is_named:
        config = yaml.safe_load(written)["config"]
        assert config["other"] == {"on": ["failed"]}
        assert isinstance(read_cluster(config["slipway:cluster"], "", "mine"), ClusterSettings)


def test_a_copy_is_in_tmpdir_whose_name_may_have_a_blank(
    copy_of: Callable[[dict[str, str]], Scratch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.setenv("TMPDIR", f"{tmp_path}/a b")
    scratch = copy_of({"Makefile": _MAKEFILE, "checks.xml": _CHECKS, "results.json": ""})
    assert scratch.directory.parent == tmp_path / "a b"
    assert ci_smoke.run_steps(scratch, "dev").checks is not None


def test_a_checkout_that_cannot_be_copied_is_named_with_gits_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ci_smoke, "CHECKOUT", tmp_path)
    monkeypatch.setattr(ci_smoke, "_SIGNALS", ())
    with pytest.raises(SystemExit, match=rf"^{tmp_path} can't be copied to TMPDIR"):
        ci_smoke.run_in_copy(lambda _scratch: pytest.fail("there is no copy"))
    assert "not a git repository" in capfd.readouterr().err


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Scratch]:
    """A copy of a git checkout with a tracked, a deleted, an untracked and an ignored file."""
    for name in ("Makefile", "deleted"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("Pulumi.*.yaml\n")
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "deleted").unlink()
    (tmp_path / "untracked").touch()
    (tmp_path / "Pulumi.dev.yaml").touch()
    copy = Scratch.copy_of(tmp_path)
    yield copy
    copy.remove()
    assert not copy.directory.exists()


def test_a_scratch_copy_has_what_git_does_not_ignore_and_a_clean_status(copy: Scratch) -> None:
    names = {path.name for path in copy.checkout.iterdir()} - {".git"}
    assert names == {".gitignore", "Makefile", "untracked"}
    finished = copy.run("git status --porcelain; echo err >&2; exit 3", 10)
    assert (finished.output, finished.errors, finished.code) == ("", "err\n", 3)


def test_commands_in_a_scratch_copy_see_its_state_and_not_the_callers_stack(
    copy: Scratch, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///somewhere/else")
    monkeypatch.setenv("KUBECONFIG", "/somewhere/else")
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:/usr/bin:/bin")
    finished = copy.run(
        'echo "$XDG_STATE_HOME"; echo "$PULUMI_BACKEND_URL$KUBECONFIG"; echo "$PATH"', 10
    )
    assert finished.output == f"{copy.state_home}\n\n/usr/bin:/bin\n"


def test_a_command_over_its_limit_is_ended_and_its_output_shown(copy: Scratch) -> None:
    with pytest.raises(TimeoutError, match="halfway"):
        copy.run("echo halfway; sleep 60", 0.5)

"""What a job's arguments and variables say arrives in its pods as it stands in the stack's file."""

import re
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from jobs.model.job import TrainingJob
from tests.unit.jobs_declared import pods, rendered, variables

GIVEN = {
    "RANK": "3", "MASTER_ADDR": "mine-master-0", "HOME": "/tmp", "SLIPWAY_RUN_ID": "mine-1",
    "SLIPWAY_DATA_DIR": "/opt/data/1", "PET_NNODES": "2", "OWN": "a$$b", "HOSTNAME": "unused",
}  # fmt: skip
"""What a pod has, as far as these tests go; the last one is nothing that Slipway promises."""
PIECES = (*"$(){}A a🚀\n", "$(", "$$", "$(HOSTNAME)", "$(OWN", "RANK)")
WORDS = st.lists(st.sampled_from(PIECES)).map("".join)


def arrived(text: str, variables: dict[str, str]) -> str:
    """Return what Kubernetes makes of a word, by its variables.

    https://github.com/kubernetes/kubernetes/blob/v1.34.4/third_party/forked/golang/expansion/expand.go
    """

    def meant(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", meant, text)


def told(word: str) -> tuple[str, str, str]:
    """Return a word as it arrives in a command, an argument and a variable."""
    said: dict[str, Any] = {"command": (word,), "args": (word,), "env": {"OWN": word}}
    job = TrainingJob(name="mine", image="example.org/a:1", **said)
    pod = pods(rendered(job))["Worker"]
    (container,), own = pod["containers"], variables(pod)["OWN"]
    before = {name: GIVEN[name] for name in ("SLIPWAY_RUN_ID", "HOSTNAME")}
    command, argument = (arrived(container[each][0], GIVEN) for each in ("command", "args"))
    return command, argument, arrived(own, before)


@given(WORDS)
@example("pa$$word")
@example("^a.*\\d+$$")
@example("$$(HOME)")
@example("$(HOSTNAME)")
def test_what_no_variable_is_referred_to_in_arrives_as_it_stands(word: str) -> None:
    assume(re.search(r"(?<!\$)\$\((RANK|OWN)\)", word) is None)
    assert told(word) == (word, word, word)


@pytest.mark.parametrize("name", [name for name in GIVEN if name != "HOSTNAME"])
def test_arguments_may_refer_to_the_variables_that_the_docs_list(name: str) -> None:
    command, argument, variable = told(f"--a=$({name})$$")
    assert command == argument == f"--a={GIVEN[name]}$$"
    is_first = name == "SLIPWAY_RUN_ID"
    assert variable == (f"--a={GIVEN[name]}$$" if is_first else f"--a=$({name})$$")

"""A webhook is notified of a run's end, again if it is down, and never ends a run."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import tenacity

from jobs.result import FailureDetails, RunResult
from jobs.run import notify
from jobs.run.notify import Hook
from tests.doubles.webhook import PATH, Webhook, webhook

_FIGURES: dict[str, Any] = {"accuracy": 0.97, "metrics": {"f1": 0.5}, "duration_seconds": 12.5}
SUCCEEDED = RunResult(state="Succeeded", run_id="mine-1", image="not for them", **_FIGURES)
FAILED = RunResult(
    state="Failed",
    run_id="mine-2",
    reason="rank 1 exited with code 1: ValueError: <!channel> & *all*",
    failure=FailureDetails(log=["a secret that was printed"]),
)
_STOP = notify._post.retry.stop
REFUSED = RunResult(state="CannotStart", reason="refused: by a quota")


@pytest.fixture
def receiver() -> Iterator[Webhook]:
    """A webhook that takes everything."""
    with webhook() as made:
        yield made


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds between tries, of which a test makes few, and does not wait for them."""
    slept: list[float] = []
    monkeypatch.setattr("jobs.run.notify._post.retry.sleep", slept.append)
    monkeypatch.setattr("jobs.run.notify._post.retry.stop", tenacity.stop_after_attempt(4))
    return slept


def told(hook: Hook, result: RunResult) -> list[str]:
    """Tell a webhook of a run, and return the warnings."""
    warnings: list[str] = []
    replace(hook, stack="dev").notify("mine", result, warnings.append)
    return warnings


def test_the_plain_form_has_fields_of_the_result_by_their_own_names(receiver: Webhook) -> None:
    hook = Hook(receiver.url)
    assert told(hook, SUCCEEDED) + told(hook, FAILED) == []
    of, ids = {"job": "mine", "stack": "dev"}, ["mine-1/Succeeded", "mine-2/Failed"]
    assert receiver.bodies == [
        {**of, "id": ids[0], "run_id": "mine-1", "state": "Succeeded", "reason": "", **_FIGURES},
        {**of, "id": ids[1], "run_id": "mine-2", "state": "Failed", "reason": FAILED.reason},
    ]
    assert [headers["Slipway-Id"] for headers, _ in receiver.got] == ids
    assert {headers["Content-Type"] for headers, _ in receiver.got} == {"application/json"}


def test_the_text_for_slack_has_no_mentions_or_links(receiver: Webhook) -> None:
    hook = Hook(receiver.url, form="slack")
    assert told(hook, SUCCEEDED) + told(hook, FAILED) == []
    failed = "Failed: rank 1 exited with code 1: ValueError: &lt;!channel&gt; &amp; *all*"
    assert [body["text"] for body in receiver.bodies] == [
        "Job mine in stack dev: Succeeded in 12.5 s, accuracy 0.97, f1 0.5",
        f"Job mine in stack dev: {failed}",
    ]


def test_teams_gets_an_adaptive_card_with_the_text_as_it_is(receiver: Webhook) -> None:
    assert told(Hook(receiver.url, form="teams"), FAILED) == []
    [message] = receiver.bodies
    [attachment] = message["attachments"]
    card = attachment["content"]
    assert (message["type"], card["type"]) == ("message", "AdaptiveCard")
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    text = f"Job mine in stack dev: Failed: {FAILED.reason}"
    assert card["body"][0]["inlines"] == [{"type": "TextRun", "text": text}]


@pytest.mark.parametrize(
    ("on", "states"),
    [(("failed",), ["Failed", "CannotStart"]), (("succeeded",), ["Succeeded"]), ((), [])],
)
def test_it_gets_the_ends_it_is_for(receiver: Webhook, on: notify.Ends, states: list[str]) -> None:
    for result in (SUCCEEDED, FAILED, REFUSED):
        assert told(Hook(receiver.url, on=on), result) == []
    assert [body["state"] for body in receiver.bodies] == states


def test_a_refused_job_has_an_id_though_it_never_was_a_run(receiver: Webhook) -> None:
    receiver.answers = [500, 200, 200]
    for _ in range(2):
        assert told(Hook(receiver.url), REFUSED) == []
    first, again, second = (body["id"] for body in receiver.bodies)
    assert first == again
    assert first != second


@pytest.mark.parametrize(
    ("answers", "tries", "warnings"),
    [
        ([503, 429, 500, 200], 4, []),
        ([503], 4, ["it returned status 503"]),
        *(([status], 1, [f"it returned status {status}"]) for status in (302, 403, 410)),
    ],
    ids=["comes back", "stays down", "redirects", "refuses", "is gone"],
)
def test_one_that_is_down_gets_the_same_for_ten_minutes_and_one_that_refuses_gets_it_once(
    answers: list[int], tries: int, warnings: list[str], receiver: Webhook, waits: list[float]
) -> None:
    receiver.answers = answers
    lacks = "the webhook was not notified that job mine ended Failed"
    assert told(Hook(receiver.url, "a key"), FAILED) == [f"{lacks}: {each}" for each in warnings]
    assert len(receiver.got) == tries
    assert len({(headers["Slipway-Signature"], body) for headers, body in receiver.got}) == 1
    assert waits == sorted(waits), "they become longer"
    assert isinstance(_STOP, tenacity.stop_before_delay)
    assert _STOP.max_delay == 600


@pytest.mark.parametrize(
    ("url", "retries"),
    [(f"http://127.0.0.1:1/{PATH}", 3), (PATH, 0), (f"http://127.0.0.1:{PATH}", 0)],
)
def test_no_warning_has_the_address_in_it(url: str, retries: int, waits: list[float]) -> None:
    """It is a secret."""
    hook = Hook(url, "a key")
    [warning] = told(hook, FAILED)
    assert warning.startswith("the webhook was not notified that job mine ended Failed: ")
    assert PATH not in warning + repr(hook)
    assert "a key" not in repr(hook)
    assert len(waits) == retries


def test_one_that_hangs_holds_up_no_run_and_one_that_answers_is_called_before_it_goes_on(
    receiver: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    Hook(receiver.url).notify_in_thread("mine", SUCCEEDED, warnings.append)
    assert ([body["id"] for body in receiver.bodies], warnings) == (["mine-1/Succeeded"], [])
    receiver.hanging = threading.Event()
    monkeypatch.setattr(notify, "_BRIEFLY", 0.2)
    begun = time.monotonic()
    Hook(receiver.url).notify_in_thread("mine", FAILED, warnings.append)
    assert time.monotonic() - begun < 5
    assert warnings == [
        "webhook not yet notified about job mine; retrying until this command exits"
    ]


def test_each_try_has_a_limit_of_time_and_another_follows(
    receiver: Webhook, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    receiver.hanging = threading.Event()
    monkeypatch.setattr("core.http._SECONDS", 0.1)
    [warning] = told(Hook(receiver.url), FAILED)
    assert warning.endswith(": ReadTimeout")
    assert len(waits) == 3

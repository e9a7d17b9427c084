"""Notify a webhook that a run ended: signed, at least once, and without blocking the run."""

import hmac
import html
import json
from collections.abc import Callable
from dataclasses import field
from threading import Thread
from typing import Annotated, Any, Literal
from uuid import uuid4

import tenacity
from pydantic import Field
from pydantic.dataclasses import dataclass

from core.fields import CONFIG
from jobs.model.fields import ConfigKey
from jobs.result import RunResult

_SENT = ("run_id", "state", "reason", "accuracy", "loss", "metrics", "duration_seconds")
_CARD = "application/vnd.microsoft.card.adaptive"
_BRIEFLY = 10.0
_ONLY = "{config: hook}, which refers to a value set by `pulumi config set --secret hook`"
Secret = Annotated[dict[Literal["config"], ConfigKey], Field(min_length=1)]
Ends = tuple[Literal["failed", "succeeded"], ...]
Form = Literal["plain", "slack", "teams"]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Notify:
    """The settings in `slipway:notify`: a webhook that is called when a run ends.

    Args:
        url: The secret that contains the webhook's URL.
        key: The secret that contains the key for signing requests.
        on: The outcomes for which the webhook is called; `failed` is any outcome but success.
        form: The format of the request's body: `plain` (the result's fields), or a message for
            `slack` or a `teams` workflow.
    """

    url: Secret = Field(description=_ONLY, json_schema_extra={"writeOnly": True})
    key: Secret | None = Field(None, description=_ONLY, json_schema_extra={"writeOnly": True})
    on: Ends = ("failed", "succeeded")
    form: Form = "plain"


@dataclass(frozen=True)
class Hook:
    """A webhook with its secrets; messages never quote errors, which may contain these secrets."""

    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)
    on: Ends = ("failed", "succeeded")
    form: Form = "plain"
    stack: str = ""

    def notify(self, job: str, result: RunResult, warn: Callable[[str], None]) -> bool:
        """Notify the webhook that a job's run ended; return True on success, and warn on failure.

        Requests are retried for about 10 minutes.
        """
        if ("succeeded" if result.succeeded else "failed") not in self.on:
            return True
        try:
            status = _post(self.url, *self._message(job, result))
            why = "" if status // 100 == 2 else f"it returned status {status}"
        except Exception as error:  # noqa: BLE001  # the run has ended in any case
            why = type(error).__name__
        if why:
            warn(f"the webhook was not notified that job {job} ended {result.state}: {why}")
        return not why

    def notify_in_thread(self, job: str, result: RunResult, warn: Callable[[str], None]) -> None:
        """Call `notify` in a thread, and wait for the thread for at most 10 seconds."""
        thread = Thread(target=self.notify, args=(job, result, warn), daemon=True)
        thread.start()
        thread.join(_BRIEFLY)
        if thread.is_alive():
            warn(f"webhook not yet notified about job {job}; retrying until this command exits")

    def _message(self, job: str, result: RunResult) -> tuple[bytes, dict[str, str]]:
        """Return a request's body and headers, which are the same for all attempts."""
        name, values = f"{result.run_id or uuid4()}/{result.state}", result.as_map()
        text = f"Job {job} in stack {self.stack}: {result}"
        # Unlike a TextBlock, a TextRun does not interpret Markdown.
        block = {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]}
        card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
        sent = {each: values[each] for each in _SENT if each in values}
        forms: dict[Form, dict[str, Any]] = {
            "plain": {"id": name, "job": job, "stack": self.stack, **sent},
            "slack": {"text": html.escape(text, quote=False)},
            "teams": {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]},
        }
        body = json.dumps(forms[self.form]).encode()
        headers = {"Content-Type": "application/json", "Slipway-Id": name}
        if self.key is not None:
            digest = hmac.digest(self.key.encode(), body, "sha256").hex()
            headers["Slipway-Signature"] = f"sha256={digest}"
        return body, headers


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(OSError)
    & tenacity.retry_if_not_exception_type(ValueError)  # an error about an invalid URL is both
    | tenacity.retry_if_result(lambda status: status == 429 or status >= 500),
    stop=tenacity.stop_before_delay(600),
    wait=tenacity.wait_exponential_jitter(max=60),
    retry_error_callback=lambda last: last.outcome and last.outcome.result(),
)
def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a POST request, and return the response's status; redirects are not followed."""
    from core.http import ask  # noqa: PLC0415 - programs import the settings without it

    return ask(
        "POST", url, data=body, headers=headers, allow_redirects=False, stream=True
    ).status_code

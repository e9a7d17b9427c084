"""`make report JOB=… TO=…`: a page to look at, complete in one file, without any server."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.files import write
from core.paths import use_extra
from scripts.cli import CommandError, echo
from scripts.cli.backend import exists, locks
from scripts.cli.config import check, load_settings, no_job
from scripts.cli.outcome import outcomes
from scripts.cli.state import read_state
from scripts.setup import bootstrap

if TYPE_CHECKING:  # It takes a second to import.
    from scripts.cli.report.content import Section

_FOLDER = Path(__file__).parent
_PAGE, _STYLE, _SCRIPT = "page.html.j2", "page.css", "page.js"


def report(stack: str, job: str, to: str) -> int:
    """Write the report on a stack's jobs, or on one of them; exits with 0.

    Raises:
        CommandError: the stack or the job has no run, or the file can't be written.
    """
    check(stack)
    sections = read(stack, job)
    bootstrap.add_extra(bootstrap.REPORT, Path(sys.prefix))
    use_extra(bootstrap.REPORT)
    file = Path(to or "report.html")
    try:
        # It has what the jobs printed, which may hold secrets.
        write(file, page(stack, sections), mode=0o600)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"{file} can't be written: {reason}. Name another: TO=…") from error
    echo(f"{file.resolve()}: open it in a browser.")
    return 0


def read(stack: str, job: str = "") -> list[Section]:
    """Return what is known of the stack's jobs that have a run, or of one of them."""
    from scripts.cli.compare import with_limits  # noqa: PLC0415 - it takes a second
    from scripts.cli.report import content  # noqa: PLC0415 - as above

    state = read_state(stack) if exists(stack) else None
    if state is None or not state.jobs:
        raise CommandError(
            f"Stack {stack} has no runs to report on; `make up STACK={stack}` trains its jobs."
        )
    if job and job not in state.jobs:
        raise CommandError(no_job(stack, job, state.jobs))
    settings = load_settings(stack)
    declared = () if settings is None else settings.jobs
    found = outcomes(state, declared, is_busy=bool(locks(stack)))
    return [
        content.section(stack, with_limits(each, declared), found[name])
        for name, each in state.jobs.items()
        if job in {"", name}
    ]


def page(stack: str, sections: Sequence[Section]) -> str:
    """Return the page; the extra `report` has to be installed."""
    import jinja2  # noqa: PLC0415 - of the extra

    # Not imported: its modules that build figures take a second.
    spec = importlib.util.find_spec("plotly")
    library = Path(str(spec and spec.origin)).parent / "package_data" / "plotly.min.js"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_function"] = _as_json
    return environment.get_template(_PAGE).render(
        stack=stack,
        sections=sections,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=(_FOLDER / _STYLE).read_text(encoding="utf-8"),
        script=(_FOLDER / _SCRIPT).read_text(encoding="utf-8"),
        # Nothing in it may end the element that it stands in.
        plotly=library.read_text(encoding="utf-8").replace("</script", r"<\/script"),
    )


def _as_json(value: Any, **options: Any) -> str:
    """Return JSON that browsers read, too: NaN is null, which plotly draws as a gap."""
    strict = json.loads(json.dumps(value), parse_constant=lambda _: None)
    return json.dumps(strict, **options)

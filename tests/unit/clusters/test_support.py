"""A version's end of support is known, and said 60 days before it."""

from datetime import date, timedelta

import pytest

from clusters import support
from clusters.kind.cluster import KindSettings
from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from scripts.setup.tools import MODULES

END = date(2026, 10, 27)


@pytest.mark.parametrize(("days", "verb"), [(-61, None), (-60, "ends"), (0, "ends"), (1, "ended")])
def test_the_end_of_support_is_a_warning_60_days_ahead(days: int, verb: str | None) -> None:
    said = support.warning("v1.34.4", END + timedelta(days))
    text = f"support for Kubernetes v1.34.4 {verb} on 2026-10-27 (https://kubernetes.io/releases/)"
    assert said == (None if verb is None else text)


def test_a_preview_knows_the_version_that_the_settings_name() -> None:
    known = CLUSTERS["kind"].kubernetes
    named = {"kindest/node:v1.34.3": END, "localhost:5000/node:mine": None, None: None}
    for image, end in named.items():
        assert support.end(str(known(KindSettings(name="a", image=image)))) == end


def test_a_preview_warns_of_a_clusters_version(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", said.append)
    for version in (None, "v1.99.1", "v1.33.4"):
        support.announce(version)
    (text,) = said
    assert text.startswith("support for Kubernetes v1.33.4 ended on 2026-06-28")
    assert "; plan an upgrade" in text


def test_the_documentation_has_every_end_and_that_of_what_set_up_builds() -> None:
    assert support.end(MODULES["kubernetes"].version) is not None
    page = (CHECKOUT / "docs/install.md").read_text()
    for version, end in support._ENDS.items():
        assert f"| Kubernetes {version} | {end} |" in page

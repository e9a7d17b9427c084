"""What an update on Azure refuses is refused before anything at all is declared."""

from pathlib import Path

import pulumi
import pytest

from clusters.azure import checks
from tests.program.declared import declare

before_update = checks.before_update


@pytest.mark.parametrize("stack", ["azure", "azure-stack"])
def test_templates_declare_nothing(stack: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared: list[str] = []
    register = pulumi.Resource.__init__

    def noted(self: pulumi.Resource, token: str, *args: object, **options: object) -> None:
        declared.append(token)
        register(self, token, *args, **options)  # type: ignore[arg-type]

    # The other tests of programs do without it.
    monkeypatch.setattr(checks, "before_update", before_update)
    monkeypatch.setattr(pulumi.Resource, "__init__", noted)
    with pytest.raises(pulumi.RunError, match="is a placeholder; replace it with") as caught:
        declare(root / "stacks" / f"{stack}.yaml", monkeypatch)
    assert f"Correct Pulumi.{stack}.yaml" in str(caught.value)
    assert set(declared) <= {"pulumi:pulumi:Stack"}

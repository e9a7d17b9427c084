"""`scripts/azure-acceptance`: run the cheapest stack on Azure once and report the responses.

It runs up, refresh, up, smoke and down, with one node and no GPU, in a copy of this checkout with
a separate state (scripts/ci_smoke.py). From your settings, it uses only the node size, the prices
and those listed in azure_acceptance.yaml. The second `up` must not change anything. The stack is
always destroyed, including after a failure, at the cost cap, and on Ctrl-C, SIGTERM and SIGHUP.

The report is JSON: steps, jobs, cost, and each of Pulumi's requests to Azure with its response. It
contains your IDs and addresses, but no passwords, tokens, keys or kubeconfigs. It is not uploaded.

Exit status: 0: all passed. 1: a step failed. 2: wrong usage; nothing was created. 124: the cap or
a step's time limit was reached. 125: a job failed. 128 + N: stopped by signal N.
"""

import json
import math
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import yaml

from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from infra import settings
from infra.cost import estimates, prices
from scripts import ci_smoke
from scripts.azure_requests import CHANGES, requests
from scripts.cli.terminal import CommandError
from scripts.scratch import Scratch

STACK = "azure-acceptance"
AGAIN = "up again"
DOWN_SECONDS = 30 * 60.0  # limit for `down`, which the cap also has to cover


@dataclass(frozen=True)
class Cap:
    """The cost limit for a run, and the hourly cost of its nodes; other costs are not included."""

    most: float
    hourly: float
    currency: str

    @property
    def seconds(self) -> float:
        """The time limit in seconds for all steps before `down`."""
        return self.most / self.hourly * 3600 - DOWN_SECONDS


def stack_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Derive the cheapest stack's settings from the user's; raise unless the kind is `aks`."""
    cluster = config.get("slipway:cluster") or {}
    if cluster.get("kind") != "aks":
        raise CommandError("slipway:cluster is not of kind aks; pass the file of an aks stack")
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    cheapest_config: dict[str, Any] = document["config"]
    cheapest = cheapest_config["slipway:cluster"]
    cheapest |= {key: cluster[key] for key in document["kept"] if key in cluster}
    system = cluster.get("system") or {}
    cheapest["system"] |= {key: value for key, value in system.items() if key == "size"}
    if (own := config.get(prices.KEY)) is not None:
        # An absolute path, since the copy does not contain files that git ignores.
        cheapest_config[prices.KEY] = str((CHECKOUT / Path(own).expanduser()).resolve())
    return cheapest_config


def cap_of(config: Mapping[str, Any], most: float) -> Cap:
    """Return a stack's cost cap; raise if a price is missing or the cap is too low for `down`."""
    parsed = settings.parse({key: json.dumps(value) for key, value in config.items()}, STACK)
    pools = CLUSTERS[parsed.cluster.kind].pools(parsed.cluster.options)
    table = parsed.prices or prices.default()
    hourly = estimates.most(pools, table)
    if hourly is None:
        sizes = ", ".join(f"{each.size} in {each.region}" for each in pools)
        raise CommandError(
            f"there is no price for {sizes}, so the cost can't be capped; use another location, or "
            "write a price table (docs/costs.md) and set slipway:prices to its path"
        )
    cap = Cap(most, float(hourly), table.currency)
    if not 0 < cap.seconds < math.inf:
        raise CommandError(
            f"--max-cost {most:g} is not finite, or does not cover `down`, which may take "
            f"{DOWN_SECONDS / 60:g} minutes at {table.currency} {hourly:.3f} an hour"
        )
    return cap


def run(scratch: Scratch, config: Mapping[str, Any], cap: Cap) -> tuple[ci_smoke.Summary, str]:
    """Run the stack in a copy of the checkout; return the summary and the report, a JSON string."""
    file = scratch.checkout / "stacks" / f"{STACK}.yaml"
    file.write_text(yaml.safe_dump({"config": dict(config)}))
    up, smoke, down = (ci_smoke.Command.of_make(name, STACK) for name in ("up", "smoke", "down"))
    up, down = replace(up, limit=60 * 60.0), replace(down, limit=DOWN_SECONDS)
    refresh = f'eval "$(make -s env)" && pulumi refresh --yes --skip-preview --stack {STACK}'
    again = replace(up, name=AGAIN)
    commands = [up, ci_smoke.Command("refresh", refresh, 10 * 60.0), again, smoke, down]

    def recorded(command: ci_smoke.Command) -> ci_smoke.Command:
        record = shlex.quote(f"{records}/{command.name}")
        return replace(command, line=f"export PULUMI_DEBUG_GRPC={record}; {command.line}")

    def requests_of(name: str) -> list[dict[str, Any]]:
        record = Path(records, name)
        lines = record.read_text(errors="replace").splitlines() if record.exists() else []
        return [*requests(lines, name)]

    def judge(step: ci_smoke.Step) -> ci_smoke.Step:
        """Fail the second `up` if it changed anything."""
        sent = requests_of(AGAIN) if step.name == AGAIN and step.status == 0 else []
        changed = [each for each in sent if each["method"] in CHANGES]
        names = ", ".join(f"{each['type']} {each['name']}" for each in changed)
        if changed:
            step = replace(step, outcome=f"changed {names}", status=ci_smoke.FAILED)
        return step

    with TemporaryDirectory(dir=scratch.directory) as records:  # they contain secrets
        summary = ci_smoke.run_steps(scratch, STACK, cap.seconds, [*map(recorded, commands)], judge)
        calls = [each for command in commands for each in requests_of(command.name)]
    spent = cap.hourly * sum(step.seconds for step in summary.steps) / 3600
    costs = {"currency": cap.currency, "max": f"{cap.most:g}", "hourly": f"{cap.hourly:.3f}"}
    costs["nodes"] = f"{spent:.3f}"
    return summary, json.dumps({**summary.document, "cost": costs, "requests": calls}, indent=1)


_OWN = CHECKOUT / "Pulumi.azure.yaml"
_SETTINGS = "an aks stack's file with your own values; by default Pulumi.azure.yaml"
_MOST = "cost limit for the nodes, in the price table's currency; by default 5"


@click.command(help=__doc__)
@click.option("--settings", "own", type=ci_smoke.input_file, default=_OWN, help=_SETTINGS)
@click.option("--max-cost", type=float, default=5.0, help=_MOST)
@click.option("--report", type=ci_smoke.output_file, required=True, help="JSON file to write")
def main(own: Path, max_cost: float, report: Path) -> None:
    """Run the command and exit with its status."""
    try:
        config = stack_config((yaml.safe_load(own.read_text()) or {}).get("config") or {})
        cap = cap_of(config, max_cost)
    except FileNotFoundError:
        raise click.UsageError(
            f"{own} does not exist; run `make preview STACK=azure` to create it, then fill it in"
        ) from None
    except (CommandError, settings.SettingsError, yaml.YAMLError) as error:
        raise click.UsageError(f"{own}: {error}") from None
    print(
        f"The nodes cost at most {cap.currency} {cap.most:g}, at {cap.hourly:.3f} an hour: the "
        f"stack will be destroyed after {cap.seconds / 60:.0f} minutes at the latest.",
        flush=True,
    )

    def run_and_report(scratch: Scratch) -> ci_smoke.Summary:
        summary, text = run(scratch, config, cap)
        report.write_text(text)
        return summary

    sys.exit(ci_smoke.run_in_copy(run_and_report))


if __name__ == "__main__":
    main(prog_name="scripts/azure-acceptance")

"""What deploy/observe holds, as the tests of metrics and alerts read it."""

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

from tests.tools import debian

ROOT = pathlib.Path(__file__).parents[2]
OBSERVE = ROOT / "deploy" / "observe"
RULES = OBSERVE / "rules" / "carico.yml"
RULE_TESTS = OBSERVE / "tests" / "alerts.yml"
DASHBOARDS = sorted((OBSERVE / "grafana" / "dashboards").glob("*.json"))
# Debian's, unpacked and installed nowhere.
PROMETHEUS: dict[str, tuple[str, ...]] = {"prometheus": ("prometheus", "promtool")}
# Whatever could be a metric of ours or of a process in a query.
_NAME = re.compile(r"\b((?:carico|process)_[a-z0-9_]+)\b")


def alerts() -> list[dict[str, Any]]:
    """Every alert rule."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard(path: pathlib.Path) -> dict[str, Any]:
    """One dashboard."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def queries(path: pathlib.Path, *, rate_interval: str = "1m") -> Iterator[tuple[str, str]]:
    """(title of the panel, PromQL) of each query of a dashboard, with what Grafana puts in put in."""
    for panel in dashboard(path)["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", rate_interval)
            yield panel["title"], re.sub(r"\$(node|instance)", ".*", text)


def metrics_in(query: str) -> set[str]:
    """The names of metrics in a query."""
    return set(_NAME.findall(query))


def promtool(*arguments: object) -> str:
    """What promtool said. Fails the test where it did not succeed."""
    path = debian.unpacked(PROMETHEUS)["promtool"]
    # It plays hours of every rule, for a minute of CPU time where others run: the test's own timeout ends it.
    done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""promtool's word on the configuration, the rules, what makes each alert fire, and every query of the dashboards."""

import pathlib

import pytest
import yaml

from tests.tools import debian, observe

pytestmark = [pytest.mark.system, pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed()))]


def test_the_rules_are_rules() -> None:
    assert f"{len(observe.alerts())} rules found" in observe.promtool("check", "rules", observe.RULES)


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-local.yml"])
def test_the_configuration_is_one(name: str, tmp_path: pathlib.Path) -> None:
    # What it names by a container's path lies elsewhere here.
    text = (observe.OBSERVE / name).read_text().replace("/etc/prometheus/rules/*.yml", str(observe.RULES))
    text = text.replace("[rules/*.yml]", f"[{observe.RULES}]").replace("targets.json", str(tmp_path / "targets.json"))
    (tmp_path / "targets.json").write_text("[]")
    (tmp_path / name).write_text(text)
    assert "SUCCESS" in observe.promtool("check", "config", tmp_path / name)


def test_each_alert_fires_on_what_it_is_about_and_none_on_a_healthy_cluster() -> None:
    assert "SUCCESS" in observe.promtool("test", "rules", observe.RULE_TESTS)


def test_every_query_of_the_dashboards_is_promql(tmp_path: pathlib.Path) -> None:
    rules = [
        {"record": f"dashboard:query{number}", "expr": query}
        for number, query in enumerate(query for path in observe.DASHBOARDS for _, query in observe.queries(path))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in observe.promtool("check", "rules", file)

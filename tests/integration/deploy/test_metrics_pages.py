"""What people read and watch names metrics that exist: dashboards, alerts, the tables of docs/."""

import pathlib
import re

import pytest

from carico_cli.reference import metric_catalogue, pages
from carico_core.domain import errors
from carico_core.runtime.observe import metrics as metric
from tests.tools import observe

DOCS = observe.ROOT / "docs"
# What is counted, where a name does not end in a unit.
COUNTED = (
    "leading", "nodes", "replicas", "pods", "holds", "reservations", "binds", "records", "connected", "failing", "info",
    "mode", "degraded", "multiples", "members", "claims", "classes", "autoscalers", "moves",
    "way", "tasks", "gain", "paused",
)  # fmt: skip
UNITS = ("seconds", "bytes", "cores", "pods", "messages", "ratio", "total", *COUNTED)
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def exported() -> frozenset[str]:
    """Return every name that a query may use, including a histogram's three suffixes."""
    found = {name for name, _ in metric_catalogue.PROCESS}
    for each in (declared for group in metric_catalogue.catalogue().values() for declared in group):
        if each.kind is metric.Kind.HISTOGRAM:
            found |= {f"{each.name}_{ending}" for ending in ("bucket", "sum", "count")}
        else:
            found.add(each.name)
    return frozenset(found)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.path)
def test_tables_of_the_docs_are_those_of_the_code(page: pages.Page) -> None:
    text = (observe.ROOT / page.path).read_text(encoding="utf-8")
    assert text == pages.written(page, text), "out of date: python -m carico_cli.reference"


def test_a_page_without_its_marks_is_not_overwritten() -> None:
    with pytest.raises(errors.SettingsError, match="expected"):
        pages.written(pages.PAGES[0], "# Metrics\n")


def test_a_folder_that_is_not_the_projects_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match="project's folder"):
        pages.write(tmp_path)


# Of at most `waits.CLASSES_MAX` series each.
BY_NAMESPACE = {
    "carico_scheduler_class_placed_pods_total", "carico_scheduler_class_waited_seconds_total",
    "carico_scheduler_class_oldest_waiting_seconds",
}  # fmt: skip


def test_names_say_their_unit_and_labels_are_few() -> None:
    for each in (declared for group in metric_catalogue.catalogue().values() for declared in group):
        assert each.name.startswith("carico_"), each.name
        assert each.name.rsplit("_", 1)[-1] in UNITS, f"{each.name} says no unit"
        assert len(each.labels) <= 2, each.name
        forbidden = {"pod", "uid"} | ({"namespace"} if each.name not in BY_NAMESPACE else set())
        assert not forbidden & set(each.labels), f"{each.name} has a label for Pods"
        assert each.buckets == tuple(sorted(each.buckets)), each.name
        assert (each.kind is metric.Kind.COUNTER) == each.name.endswith("_total"), each.name


def test_dashboards_are_the_four_that_there_are() -> None:
    names = [path.stem for path in observe.DASHBOARDS]
    assert names == ["carico-bus", "carico-cluster", "carico-node", "carico-scheduler"]
    listed = (observe.OBSERVE / "kustomization.yaml").read_text()
    assert all(f"grafana/dashboards/{name}.json" in listed for name in names)


@pytest.mark.parametrize("path", observe.DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: pathlib.Path) -> None:
    found = observe.dashboard(path)
    assert found["uid"] == path.stem
    assert found["title"].startswith("CARICO: ")
    assert {each["name"] for each in found["templating"]["list"]} >= {"datasource"}
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not taken & cells, f"{panel['title']} lies over another panel"
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"], panel["title"]
            assert all(target["datasource"] == DATASOURCE for target in panel["targets"])
            assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("path", observe.DASHBOARDS, ids=lambda path: path.stem)
def test_every_query_of_a_dashboard_names_what_is_exported(path: pathlib.Path) -> None:
    known = exported()
    for title, query in observe.queries(path):
        unknown = observe.metrics_in(query) - known
        assert not unknown, f"{path.stem}, {title}: no service exports {unknown}"


def test_together_the_dashboards_show_what_services_export() -> None:
    shown = {
        name for path in observe.DASHBOARDS for _, query in observe.queries(path) for name in observe.metrics_in(query)
    }
    hidden = {
        each.name
        for group in metric_catalogue.catalogue().values()
        for each in group
        if not any(name.startswith(each.name) for name in shown)
    }
    # What is for a look by hand.
    assert hidden == {
        "carico_agent_samples_empty_total", "carico_agent_sources_broken_total", "carico_agent_models_total",
        "carico_agent_update_seconds", "carico_agent_signal_multiples", "carico_agent_innovation_abs_ratio",
        "carico_aggregator_odd_nodes", "carico_aggregator_doubted_nodes",
        "carico_aggregator_usage_reports_total", "carico_recommender_classes", "carico_recommender_leading",
        "carico_recommender_ask_errors_total", "carico_recommender_round_seconds",
        "carico_recommender_refused_connections_total",
        "carico_recommender_certificate_left_seconds",
        "carico_rescheduler_plans_total", "carico_rescheduler_plan_seconds", "carico_rescheduler_move_seconds",
        "carico_rescheduler_leading", "carico_rescheduler_bad_objects_total",
        "carico_rescheduler_dropped_messages_total",
    }  # fmt: skip


def test_every_alert_names_what_is_exported_and_has_an_entry_in_the_runbook() -> None:
    known = exported()
    entries = re.findall(r"^### (\w+)$", (DOCS / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    names = [rule["alert"] for rule in observe.alerts()]
    assert sorted(entries) == sorted(names)
    assert len(set(names)) == len(names)
    for rule in observe.alerts():
        assert not observe.metrics_in(rule["expr"]) - known, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith(".")


def test_every_alert_has_a_test_that_makes_it_fire() -> None:
    text = observe.RULE_TESTS.read_text()
    for rule in observe.alerts():
        assert f'ALERTS{{alertname="{rule["alert"]}",alertstate="firing"}}' in text, rule["alert"]

"""The Helm chart's copies of configuration are those of deploy/: the rest is compared by tests/integration."""

from tests.tools.make.helm_chart import chart, combinations

SOURCES = ("k8s", "nats", "observe")


def test_each_file_of_the_chart_is_a_file_of_deploy() -> None:
    contents = {
        path.read_bytes() for folder in SOURCES for path in (combinations.DEPLOY / folder).rglob("*") if path.is_file()
    }
    copies = [path for path in (chart.CHART / "files").rglob("*") if path.is_file()]
    assert len(copies) > 5
    stale = [path.relative_to(chart.CHART).as_posix() for path in copies if path.read_bytes() not in contents]
    assert stale == [], "run `make chart` (python -m tests.tools.make.helm_chart)"


def test_each_component_is_a_value() -> None:
    values = (chart.CHART / "values.yaml").read_text(encoding="utf-8")
    missing = [name for name in combinations.components() if f"\n  {name}: false\n" not in values]
    assert missing == [], "run `make chart` (python -m tests.tools.make.helm_chart)"


def test_a_joined_component_has_no_value_of_its_own() -> None:
    assert "web-callout" not in combinations.components()
    assert combinations.components()[-1] == combinations.LAST

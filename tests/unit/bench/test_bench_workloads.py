"""scheduler_perf's workloads: parameters are set, variants are played once, and what cannot be played is left out."""

import pathlib

import pytest

from bench.cluster import _workloads

CASES = """
- name: Basic
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: init
    createPodsOp: {opcode: createPods, countParam: $each}
  - {opcode: createPods, countParam: $pods, podTemplatePath: ../templates/other.yaml, collectMetrics: true}
  - {opcode: churn, mode: create, templatePaths: [../templates/pod.yaml]}
  workloads:
  - {name: huge, params: {nodes: 9000, sets: 1, each: 2, pods: 9}}
  - {name: large, threshold: 270, params: {nodes: 5000, sets: 1, each: 2, pods: 9}}
  - {name: small, params: {nodes: 1, sets: 2, each: 3, pods: 4}}
  - {name: small_Hints, featureGates: {SchedulerQueueingHints: true}, params: {nodes: 1, sets: 2, each: 3, pods: 4}}
  - {name: middle, params: {nodes: 500, sets: 0, each: 0, pods: 1000}}
  - {name: gated, featureGates: {GenericWorkload: true}, params: {nodes: 2, sets: 0, each: 0, pods: 1}}
- name: Devices
  workloadTemplate: [{opcode: createResourceDriver}]
  workloads: [{name: small, params: {}}]
- name: Volumes
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate: [{opcode: createPods, count: 1, persistentVolumeTemplatePath: ../templates/pod.yaml}]
  workloads: [{name: small, params: {}}]
- name: Numbered
  defaultPodTemplatePath: ../templates/numbered.yaml
  workloadTemplate: [{opcode: createPods, count: 1}, {opcode: updateAny, templatePath: ../templates/numbered.yaml}]
  workloads: [{name: small, params: {}}]
- name: Unknown
  defaultPodTemplatePath: ../templates/unknown.yaml
  workloadTemplate: [{opcode: createPods, count: 1}]
  workloads: [{name: small, params: {}}]
"""

NUMBERED = "{name: pod-{{.Index}}, port: 8{{ Mod .Index 12 }}, node: {{ DivideInt .Index 5 }}, of: {{ .Count }}}"


@pytest.fixture
def cases(tmp_path: pathlib.Path) -> dict[str, list[_workloads.Workload]]:
    (tmp_path / "misc").mkdir()
    (tmp_path / "misc/performance-config.yaml").write_text(CASES)
    (tmp_path / "templates").mkdir()
    texts = {"pod": "kind: Pod", "other": "kind: Pod", "numbered": NUMBERED, "unknown": "kind: {{ Upper .Index }}"}
    for name, text in texts.items():
        (tmp_path / f"templates/{name}.yaml").write_text(text)
    return _workloads.read(tmp_path)


def test_what_can_be_played_is_listed_by_size(cases: dict[str, list[_workloads.Workload]]) -> None:
    assert {name: [each.name for each in workloads] for name, workloads in cases.items()} == {
        "Basic": ["small", "middle", "large", "huge"], "Volumes": ["small"], "Numbered": ["small"],
    }  # fmt: skip
    assert cases["Volumes"][0].ops[0]["persistentVolumeTemplatePath"].is_file()
    choices = (_workloads.smallest, _workloads.short, _workloads.largest)
    assert [choose(cases["Basic"]).name for choose in choices] == ["small", "middle", "large"]
    assert [each.floor for each in cases["Basic"]] == [None, None, 270, None]


def test_templates_are_filled_with_the_number_of_their_object(cases: dict[str, list[_workloads.Workload]]) -> None:
    (pods, update) = cases["Numbered"][0].ops
    assert _workloads.template(pods["podTemplatePath"], 13, 20) == {"name": "pod-13", "port": 81, "node": 2, "of": 20}
    assert _workloads.template(update["templatePath"]) == {"name": "pod-0", "port": 80, "node": 0, "of": 1}


def test_parameters_and_paths_are_set(cases: dict[str, list[_workloads.Workload]]) -> None:
    small = _workloads.smallest(cases["Basic"])
    assert (small.nodes, small.pods) == (1, 2 * 3 + 4)
    nodes, sets, measured, churn = small.ops
    assert (nodes["count"], sets["count"], sets["createPodsOp"]["count"], measured["count"]) == (1, 2, 3, 4)
    read = [
        _workloads.template(path)["kind"] for path in (sets["createPodsOp"]["podTemplatePath"], *churn["templatePaths"])
    ]
    assert read == ["Pod", "Pod"]
    assert measured["podTemplatePath"].name == "other.yaml"

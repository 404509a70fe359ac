"""Mistakes in what `carico compare` is to run end it before a cluster starts."""

import pathlib

import pytest

from carico_cli.clusters import starting
from carico_cli.jobs import compare_applications
from carico_core.runtime.process import settings
from carico_local.cluster import machine
from carico_rescheduler import settings as reschedulers
from tests.tools import carico_cli

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
MANIFEST = """
kind: Pod
metadata: {name: a}
spec:
  restartPolicy: Never
  containers: [{name: main, image: busybox, command: [sleep, "1"], resources: {limits: {cpu: 100m}}}]
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seconds", "-5", "--contender", "carico"), "--seconds: got -5, expected 0.05 to 86400"),
        (("--contender", "kube-9000m"), "--contender: got 'kube-9000m', expected a request of at most 4000m"),
        (
            ("--nodes", "kubelet=2", "--contender", "kube-1000m"),
            "--contender: got 'kube-1000m', expected a request of at most 500m: a node has 0.5 cores for Pods",
        ),
        (
            ("--nodes", "kubelet=2", "--contender", "kube-100m", "--servers-cpu", "1"),
            "--servers-cpu: got '1', expected CPU such as 100m or 0.5, from 1m to the 0.5 cores of a node",
        ),
        (("--contender", "kube-200m"), "limits 0.1 of cpu, expected at least 0.2"),
        (("--pods", "3"), "--pods: a file of manifests has its own number of Pods"),
    ],
)
def test_a_file_that_cannot_run_as_asked_is_one_line(
    words: tuple[str, ...], said: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert said in refused(MANIFEST, words, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("node", "said"), [("node-3", "no node has the label kubernetes.io/hostname=node-3"), ("node-2", None)]
)
def test_a_file_that_chooses_a_node_that_will_not_be_there_is_refused(
    node: str, said: str | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    manifest = f"{MANIFEST}  nodeSelector: {{kubernetes.io/hostname: {node}}}\n"
    words = ("--nodes", "2", "--contender", "carico")
    if said is None:
        with pytest.raises(AssertionError, match="a cluster starts"):
            refused(manifest, words, tmp_path, monkeypatch, capsys)
    else:
        assert f"Pod a: could never be placed: {said}" in refused(manifest, words, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(("nodes", "is_taken"), [("2", False), ("kubelet=2", True)])
def test_a_file_is_checked_for_the_nodes_that_it_will_have(
    nodes: str, is_taken: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    manifest = MANIFEST.replace('command: [sleep, "1"], ', "")
    words = ("--nodes", nodes, "--contender", "carico")
    if is_taken:
        with pytest.raises(AssertionError, match="a cluster starts"):
            refused(manifest, words, tmp_path, monkeypatch, capsys)
    else:
        said = refused(manifest, words, tmp_path, monkeypatch, capsys)
        assert "Pod a: emulated nodes do not run this: container 'main' has no command" in said


def refused(
    manifest: str, words: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:  # fmt: skip
    """The line with which `carico compare` refuses a file."""

    def obtain(*_: object) -> None:
        raise AssertionError("a cluster starts")

    monkeypatch.setattr(starting, "obtain", obtain)
    monkeypatch.setattr(machine, "read_machine", lambda: MACHINE)
    file = tmp_path / "work.yaml"
    file.write_text(manifest)
    code = carico_cli.run(monkeypatch, "compare", "--workload", file, "--out", tmp_path / "out", *words)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    return err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--applications", "--contender", "yarn"), "expected one of none, kube-scheduler, descheduler, ws-sa"),
        (("--applications", "--pods", "3"), "--pods: is for a job, not for --applications"),
        (("--applications", "--servers"), "--servers: is for a job"),
        (("--applications", "--delay-ms", "-1"), "--delay-ms: got -1, expected 0 to 1000"),
        (("--applications", "--nodes", "kwok=5"), "--nodes: got kwok, expected process nodes with --applications"),
        (("--quick",), "--quick: is for --applications"),
        (("--load", "low"), "--load: is for --applications"),
        (("--applications", "--load", "middle"), "'middle' is not one of 'low', 'high', 'both'"),
    ],
)
def test_flags_that_do_not_go_with_applications_are_one_line(
    words: tuple[str, ...], said: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def obtain(*_: object) -> None:
        raise AssertionError("a cluster starts")

    monkeypatch.setattr(starting, "obtain", obtain)
    code = carico_cli.run(monkeypatch, "compare", "--out", tmp_path / "out", *words)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert said in err


def test_the_rescheduler_of_a_comparison_takes_its_settings() -> None:
    environ = {f"CARICO_RESCHEDULER_{name}": each for name, each in compare_applications.RESCHEDULER.items()}
    loaded = settings.load(
        reschedulers.ReschedulerSettings, prefix="rescheduler", argv=[], environ=environ, program="test"
    )
    assert not loaded.automatic
    assert (loaded.least_tasks, loaded.most_moves, loaded.place_s) == (0.2, 100, 10.0)

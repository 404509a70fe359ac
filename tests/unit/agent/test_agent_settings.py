"""Settings of the agent: what is refused, and with which words."""

import pytest

from carico_agent import __main__, service, settings
from carico_agent.learning import configuration
from carico_agent.pod_events import none
from carico_agent.telemetry import panel, sources
from carico_core.domain import errors
from carico_core.runtime.kube import cluster_access
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as loading


def load(*argv: str, **environ: str) -> settings.AgentSettings:
    return loading.load(
        settings.AgentSettings, prefix=settings.PREFIX, argv=argv, environ=environ, program=settings.PROGRAM
    )


def test_an_emulated_node() -> None:
    chosen = load(
        *("--node", "node-1", "--scope", "cgroup", "--cgroup", "carico-demo/node-1", "--cores", "4"),
        *("--scale", "0.125", "--memory-bytes", "1e9", "--pod-events", "cgroup", "--bus-url", "nats://127.0.0.1:1"),
    )
    wanted = chosen.wanted()
    assert (wanted.scope, wanted.cgroup) == (sources.Scope.CGROUP, "carico-demo/node-1")
    assert (wanted.cores, wanted.scale, wanted.memory_bytes) == (4.0, 0.125, 1e9)
    assert chosen.bus.url == "nats://127.0.0.1:1"


def test_the_ceilings_reach_the_estimator() -> None:
    chosen = load("--node", "n", "--ceiling-cpu", "0.5", "--dims", "memory,cpu")
    facts = panel.Facts(dims=("memory", "cpu"), scale=(8e9, 8.0), cores=4.0, source="host")
    node = configuration.node_config(chosen, facts)
    assert node.ceiling.tolist() == [0.95, 0.5]
    assert configuration.pipeline_config(chosen, node).model_max_age_s == 30.0


def test_the_order_of_dimensions_is_not_the_users() -> None:
    assert load("--node", "n", "--dims", "memory,cpu").dims == ("cpu", "memory")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--node", "n", "--scope", "cgroup"), "--scope cgroup needs the group's path"),
        (("--node", "n", "--scope", "process"), "--scope process needs the node's process"),
        (("--node", "n", "--scope", "process", "--root-pid", "1"), "--pod-events kubernetes"),
        (
            ("--node", "n", "--estimator", "footprin"),
            "expected one of delta, dual, footprint, joint (nearest: footprint)",
        ),
        (
            ("--node", "n", "--estimator", "vector"),
            "'vector' was removed: it was footprint without classes of Pods: use footprint with",
        ),
        (("--node", "n", "--dims", "cpu,cpu"), "--dims: got cpu,cpu, expected each dimension once"),
        (("--node", "n", "--dims", ""), "--dims: got none, expected each dimension once, at least one"),
        (("--node", "n", "--baseline-namespaces", "Kube System"), "got 'Kube System', expected a namespace's name"),
        (("--node", "n", "--guard", "0.25"), "--guard was removed: a node accepts nothing above its ceilings"),
        (("--node", "n", "--sample-hz", "50"), "--sample-hz was removed: telemetry is read 10 times a second"),
        (("--node", "n", "--batch", "5"), "--batch was removed: the model is updated once a second"),
        (("--node", "n", "--signal-mode", "trace"), "--signal-mode was removed: the estimator decides which signal"),
        (("--node", "n", "--peak-half-life-s", "60"), "--peak-half-life-s was removed: the largest Pod count"),
        (("--node", "n", "--ceiling-cpu", "1.5"), "expected a number from 0.05 to 1"),
        (("--node", "Not_A_Name"), "expected a valid Kubernetes name"),
        ((), "--node is required"),
    ],
)
def test_what_cannot_be_is_refused(argv: tuple[str, ...], said: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        load(*argv)
    assert said in str(caught.value)


def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["carico-agent", "--nodee", "x"])
    assert __main__.main() == 2
    assert capsys.readouterr().err == "carico-agent: unknown flag --nodee; nearest: --node (see --help)\n"


def test_every_setting_says_what_it_means() -> None:
    for found in loading.describe(settings.AgentSettings, prefix=settings.PREFIX):
        assert len(found.help) > 8, found.flag


def test_a_kubeconfig_from_the_environment() -> None:
    assert load("--node", "n", KUBECONFIG="/k").kubeconfig == "/k"


def test_variables_of_other_programs_stand_in_the_help() -> None:
    every = [
        *loading.describe(settings.AgentSettings, prefix=settings.PREFIX),
        *loading.describe(cluster_access.KubeSettings, prefix="kube"),
    ]
    shown = {found.variable: found.help for found in every if found.variable in loading.FOREIGN_VARIABLES}
    assert shown.keys() == loading.FOREIGN_VARIABLES.keys()
    assert all(f"${foreign}" in shown[ours] for ours, foreign in loading.FOREIGN_VARIABLES.items())


def test_pods_may_go_uncounted() -> None:
    pods = service.open_pods(load("--node", "n", "--pod-events", "none"), clock=clocks.FakeClock())
    assert isinstance(pods, none.NoPods)
    assert pods.current().running == frozenset()


@pytest.mark.parametrize(("flags", "mode"), [((), "sigma1u1"), (("--estimator", "dual"), "trace")])
def test_the_estimator_decides_which_signal_there_is(flags: tuple[str, ...], mode: str) -> None:
    facts = panel.Facts(dims=("cpu",), scale=(4.0,), cores=2.0, source="host")
    assert configuration.node_config(load("--node", "n", *flags), facts).signal_mode == mode

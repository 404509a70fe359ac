"""One rule for which cluster is meant, for every command: the flag, the environment, the only one that runs."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from carico_cli import application
from carico_cli.clusters import which
from carico_cli.live import addresses
from carico_cli.shell import options, settings
from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_local.cluster import folders, machine, plan, processes, state
from tests.tools import carico_cli

ANY = api_client.KubeSettings()
MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
A, B, ELSEWHERE = "nats://127.0.0.1:4991", "nats://127.0.0.1:4992", "nats://elsewhere:4222"
# Other arguments that each command needs.
ARGUMENTS = {
    "status": (), "top": ("--once",), "submit": ("pi",), "explain": ("pod-1",), "capacity": (), "logs": ("scheduler",),
    "web": (), "env": (), "targets": (), "record": ("--node", "node-1", "--out", "/nowhere/r.rec"), "doctor": (),
    "down": (), "recommend": (), "reschedule": ("--dry-run",),
}  # fmt: skip
# They work on no cluster, on all of them, on one that they start and end themselves, or (use) always have a name.
WITHOUT = {"demo", "list", "use", "compare", "evaluate", "replay", "decode", "bus-config"}
# For a cluster of this machine alone; the other commands also take an address.
LOCAL = {"status", "logs", "web", "env", "targets", "record", "down"}


def written(home: pathlib.Path, name: str, url: str) -> folders.Paths:
    """A cluster as its supervisor writes it; it runs as long as a process holds its lock."""
    paths = folders.Paths(home / name)
    paths.logs.mkdir(parents=True)
    paths.log("scheduler").write_text("")
    paths.plan.write_text("{}")
    made = plan.make_plan(plan.Options(name=name, nodes=1), MACHINE)
    found = state.ClusterState(
        plan=made, phase=state.Phase.READY, supervisor=processes.ProcessId(pid=1, start_ticks=1),
        started_ns=1, nats_url=url, api_url="http://127.0.0.1:2", services=(), crashes=(), notes=(), failure=None,
    )  # fmt: skip
    state.write(paths, found)
    return paths


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two clusters, a and b."""
    root = tmp_path / "carico"
    written(root, "a", A)
    written(root, "b", B)
    return root


@contextlib.contextmanager
def running(home: pathlib.Path, names: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(folders.acquire(folders.Paths(home / name)))
        yield


# The flags, the environment, who runs; and then the cluster that is meant, or what the refusal says. {b}: of cluster b.
CASES: list[tuple[tuple[str, ...], dict[str, str], str, str]] = [
    (("--name", "b"), {}, "ab", "b"),
    (("--name", "b"), {"CARICO_CLUSTER": "a"}, "ab", "b"),
    (("--name", "b"), {"NATS_URL": A}, "ab", "b"),
    (("--name", "b"), {"NATS_URL": ELSEWHERE}, "a", "b"),
    ((), {"CARICO_CLUSTER": "b"}, "ab", "b"),
    ((), {"CARICO_CLUSTER": "b", "NATS_URL": B, "KUBECONFIG": "{b}"}, "ab", "b"),
    ((), {"CARICO_CLUSTER": "b"}, "a", "b"),
    ((), {"CARICO_CLUSTER": "b", "NATS_URL": A}, "ab", "CARICO_CLUSTER is 'b', whose NATS_URL is"),
    ((), {"CARICO_CLUSTER": "b", "KUBECONFIG": "/k"}, "ab", "CARICO_CLUSTER is 'b', whose KUBECONFIG is"),
    (
        (),
        {"CARICO_CLUSTER": "c"},
        "ab",
        "CARICO_CLUSTER is 'c', which is not a cluster of this machine (there",
    ),
    ((), {"NATS_URL": B}, "ab", "b"),
    ((), {"NATS_URL": B, "KUBECONFIG": "{b}"}, "ab", "b"),
    ((), {"NATS_URL": B, "KUBECONFIG": "/k"}, "ab", "b"),
    ((), {"NATS_URL": A, "KUBECONFIG": "{b}"}, "ab", "NATS_URL is that of cluster 'a', but KUBECONFIG that of 'b': "),
    ((), {"NATS_URL": ELSEWHERE, "KUBECONFIG": "/k"}, "ab", "elsewhere:4222"),
    ((), {"NATS_URL": ELSEWHERE, "KUBECONFIG": "/k"}, "a", "elsewhere:4222"),
    # One that does not run has given up its port.
    ((), {"NATS_URL": B, "KUBECONFIG": "{b}"}, "a", "127.0.0.1:4992"),
    ((), {}, "a", "a"),
    ((), {}, "b", "b"),
    ((), {}, "ab", "which cluster? there are a, b: give --name"),
]


def test_every_command_is_in_the_table() -> None:
    assert set(ARGUMENTS) | WITHOUT | {"up"} == set(application.COMMANDS)


@pytest.mark.parametrize("command", ARGUMENTS)
def test_each_command_means_the_cluster_of_the_rule(
    command: str, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = which.meant

    def meant(*arguments: Any, **named: Any) -> which.Meant:
        # What it was decided to be, before anything is done with it.
        found = rule(*arguments, **named)
        where = found.name or (found.local_name("go there") if command in LOCAL else found.where()().name)
        raise errors.SettingsError(f"meant: {where}")

    monkeypatch.setattr(which, "meant", meant)
    monkeypatch.setenv("XDG_STATE_HOME", str(home.parent))
    for flags, environ, names, expected in CASES:
        with running(home, names), monkeypatch.context() as patch:
            for variable in (which.CLUSTER, which.NATS_URL, which.KUBECONFIG):
                patch.delenv(variable, raising=False)
            for variable, value in environ.items():
                patch.setenv(variable, value.replace("{b}", str(folders.Paths(home / "b").kubeconfig)))
            code = carico_cli.run(patch, command, *ARGUMENTS[command], *flags)
        said = capsys.readouterr().err
        case = (command, flags, environ, names)
        assert code == 2 and said.count("\n") == 1, case
        if ":4" in expected:
            expected = f"NATS_URL names the cluster at {expected}" if command in LOCAL else f"meant: {expected}\n"
        elif len(expected) == 1:
            expected = f"meant: {expected}\n"
        assert expected in said.replace("nats://", ""), (case, said)


@pytest.mark.parametrize(("need", "names"), [("STATE", "down"), ("STATE", "status"), ("LOGS", "logs")])
def test_a_command_that_needs_no_running_cluster_takes_the_only_one_there_is(
    need: str, names: str, home: pathlib.Path
) -> None:
    context = settings.Context(home=home, environ={}, plain=True)
    with pytest.raises(errors.SettingsError, match="which cluster"):
        which.meant(context, which.Flags(), need=which.Need[need])
    folders.Paths(home / "b").plan.unlink()
    folders.Paths(home / "b").log("scheduler").unlink()
    assert which.meant(context, which.Flags(), need=which.Need[need]).name == "a"
    with pytest.raises(errors.SettingsError, match=r"no cluster runs on this machine \(not running: a\): `carico up`"):
        which.meant(context, which.Flags())


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        ((), {}, "demo"),
        ((), {"CARICO_CLUSTER": "b"}, "b"),
        (("--name", "a"), {"CARICO_CLUSTER": "b"}, "a"),
        # It is refused later, as a name.
        (("--name", ""), {"CARICO_CLUSTER": "b"}, ""),
    ],
)
def test_up_starts_the_cluster_of_the_flag_or_of_the_environment(
    flags: tuple[str, ...], environ: Mapping[str, str], expected: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def request(name: str, _: object) -> None:
        raise errors.SettingsError(f"meant: {name}")

    monkeypatch.setattr(options, "request", request)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert carico_cli.run(monkeypatch, "up", *flags) == 2
    assert f"meant: {expected}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "environ", "running_names", "expected"),
    [
        (which.Flags(kubeconfig="/k"), {}, "ab", "/k"),
        (which.Flags(kube_context="prod"), {}, "a", "prod"),
        (which.Flags(), {"KUBECONFIG": "/k"}, "a", ""),
        (which.Flags(), {}, "", ""),
    ],
)
def test_doctor_takes_a_kubeconfig_without_a_bus(
    flags: which.Flags, environ: Mapping[str, str], running_names: str, expected: str, home: pathlib.Path
) -> None:
    context = settings.Context(home=home, environ=environ, plain=True)
    with running(home, running_names):
        found = which.meant(context, flags, need=which.Need.API)
    assert found.name is None and found.api is not None
    assert found.api.kubeconfig + found.api.context == expected


def test_the_kubeconfig_of_a_cluster_that_runs_means_that_cluster(home: pathlib.Path) -> None:
    environ = {"KUBECONFIG": str(folders.Paths(home / "b").kubeconfig)}
    context = settings.Context(home=home, environ=environ, plain=True)
    with running(home, "ab"):
        assert which.meant(context, which.Flags(), need=which.Need.API).name == "b"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nats://scheduler:old-secret@127.0.0.1:4993", "but NATS_URL is that of an earlier start"),
        ("nats://scheduler:old-secret@127.0.0.1:4994", "is 127.0.0.1:4993, but NATS_URL is 127.0.0.1:4994"),
    ],
)
def test_a_refused_address_shows_no_password(home: pathlib.Path, given: str, said: str) -> None:
    written(home, "c", "nats://scheduler:new-secret@127.0.0.1:4993")
    context = settings.Context(home=home, environ={which.CLUSTER: "c", which.NATS_URL: given}, plain=True)
    with running(home, "c"), pytest.raises(errors.SettingsError, match=said) as refused:
        which.meant(context, which.Flags())
    assert "secret" not in str(refused.value)


def test_flags_of_an_address_need_all_of_it(home: pathlib.Path) -> None:
    context = settings.Context(home=home, environ={}, plain=True)
    with pytest.raises(errors.SettingsError, match=r"^--kubeconfig: the cluster's NATS address is missing"):
        which.meant(context, which.Flags(kubeconfig="/k"))
    for flags in (which.Flags(name="a", nats_url=A), which.Flags(name="a", kubeconfig="/k")):
        with pytest.raises(errors.SettingsError, match="got both"):
            which.meant(context, flags)
    found = which.meant(context, which.Flags(nats_url="x:1", kubeconfig="/k")).where()()
    assert (found.bus.url, found.kube.kubeconfig, found.is_local) == ("x:1", "/k", False)


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--name", which.Flags(name="")),
        ("--nats-url", which.Flags(nats_url="")),
        ("--kubeconfig", which.Flags(nats_url=A, kubeconfig="")),
        ("--context", which.Flags(kube_context="")),
    ],
)
def test_a_flag_without_a_value_means_no_other_cluster(home: pathlib.Path, flag: str, given: which.Flags) -> None:
    """As of a variable that is not set: `carico reschedule --apply --nats-url "$PRODUCTION"` moved Pods of another."""
    context = settings.Context(home=home, environ={}, plain=True)
    with running(home, "a"), pytest.raises(errors.SettingsError, match=f"^{flag}: got an empty value"):
        which.meant(context, given)


def test_a_cluster_that_is_being_ended_does_not_run(home: pathlib.Path) -> None:
    shop = folders.Paths(home / "a")
    found = state.read(shop)
    assert found is not None
    with folders.acquire(shop):
        assert state.running(home, "a") == (shop, found)
        state.write(shop, dataclasses.replace(found, phase=state.Phase.STOPPING))
        with pytest.raises(errors.SettingsError, match="'a' is not running: start it with `carico up --name a`"):
            addresses.local(home, "a")()


@pytest.mark.parametrize("url", ["foo:bar", "nats://foo:99999", "http://foo:1", "x:1,:2", "nats://[::1"])
def test_an_invalid_address_is_one_line_that_names_where_it_was_given(url: str, tmp_path: pathlib.Path) -> None:
    for environ, flags, said in (
        ({}, which.Flags(nats_url=url), "--nats-url"),
        ({"NATS_URL": url}, which.Flags(), "NATS_URL"),
    ):
        context = settings.Context(home=tmp_path, environ=environ, plain=True)
        with pytest.raises(errors.SettingsError, match=f"^{said}: got .* expected an address such as nats://"):
            which.meant(context, flags)

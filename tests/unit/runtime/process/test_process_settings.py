"""Settings from flags and environment, and the one line a mistake gives."""

import dataclasses
import enum
import pathlib
import subprocess
import sys

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_core.runtime.process.settings import setting


class Scope(enum.StrEnum):
    HOST = "host"
    CGROUP = "cgroup"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BusLike:
    url: str = setting("nats://127.0.0.1:4222", help="where the bus is")
    lease_s: float = setting(10.0, help="lease", unit="s", minimum=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    node: str = setting(help="name of the node")
    sample_hz: float = setting(10.0, help="samples", unit="Hz", minimum=1, maximum=100, why="section 1")
    batch: int = setting(10, help="batch", minimum=1)
    scope: Scope = setting(Scope.HOST, help="what is measured")
    verbose: bool = setting(False, help="say more")
    root: pathlib.Path | None = setting(None, help="a folder")
    dims: tuple[str, ...] = setting(("cpu", "memory"), help="dimensions", choices=("cpu", "memory", "disk"))
    bus: BusLike = dataclasses.field(default_factory=BusLike)
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)

    def __post_init__(self) -> None:
        if self.batch > 50 and self.sample_hz < 5:
            raise ValueError(f"batch: got {self.batch}, expected at most 50 below 5 Hz")


def load(*argv: str, **environ: str) -> Example:
    return settings.load(Example, prefix="AGENT", argv=argv, environ=environ, program="carico-agent")


def refusal(*argv: str, **environ: str) -> str:
    with pytest.raises(errors.SettingsError) as caught:
        load(*argv, **environ)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_defaults_environment_and_flags_in_that_order() -> None:
    assert load("--node", "n1") == Example(node="n1")
    by_environment = load(CARICO_AGENT_NODE="n1", CARICO_AGENT_SAMPLE_HZ="20", CARICO_BUS_URL="nats://x")
    assert (by_environment.sample_hz, by_environment.bus.url) == (20.0, "nats://x")
    assert load("--sample-hz=30", CARICO_AGENT_NODE="n1", CARICO_AGENT_SAMPLE_HZ="20").sample_hz == 30.0


def test_every_kind_of_value() -> None:
    found = load(
        *("--node", "n1", "--batch", "5", "--scope", "cgroup", "--verbose", "--root", "/tmp", "--dims", "cpu, disk"),
        *("--bus-lease-s", "3"),
    )
    assert found == Example(
        node="n1",
        batch=5,
        scope=Scope.CGROUP,
        verbose=True,
        root=pathlib.Path("/tmp"),
        dims=("cpu", "disk"),
        bus=BusLike(lease_s=3.0),
    )
    assert load("--node", "n1", "--no-verbose", CARICO_AGENT_VERBOSE="yes").verbose is False
    assert load("--node", "n1", "--root=", CARICO_AGENT_ROOT="/x").root is None


def test_a_group_of_the_program_has_its_variables() -> None:
    found = load("--node", "n1", "--http-port", "-1", "--no-log-json", CARICO_AGENT_HTTP_HOST="::1")
    assert found.http == settings.HttpSettings(host="::1", port=-1)
    assert found.log == settings.LogSettings(json=False)
    # Another program on the same machine has its own.
    assert (
        load("--node", "n1", CARICO_SCHEDULER_HTTP_PORT="1", CARICO_HTTP_PORT="2", CARICO_LOG_LEVEL="3").http.port == 0
    )
    assert "nearest: CARICO_AGENT_HTTP_PORT" in refusal("--node", "n1", CARICO_AGENT_HTTP_POR="1")
    assert "--http-port: got '70000'" in refusal("--node", "n1", "--http-port", "70000")


def test_variables_of_other_programs_are_a_fallback() -> None:
    assert load("--node", "n1", NATS_URL="nats://there").bus.url == "nats://there"
    assert load("--node", "n1", NATS_URL="nats://there", CARICO_BUS_URL="nats://ours").bus.url == "nats://ours"


@pytest.mark.parametrize(
    ("argv", "environ", "said"),
    [
        ((), {}, "--node is required (name of the node): give --node VALUE or set CARICO_AGENT_NODE"),
        (("--nod", "x"), {}, "unknown flag --nod; nearest: --node"),
        (
            (),
            {"CARICO_AGENT_SAMPLE_HERZ": "1"},
            "unknown environment variable CARICO_AGENT_SAMPLE_HERZ; nearest: CARICO",
        ),
        ((), {"CARICO_BUS_URI": "1"}, "nearest: CARICO_BUS_URL"),
        (("--nix", "x"), {}, "unknown flag --nix; no similar name exists"),
        (("--version",), {}, "unknown flag --version; no similar name exists"),
        ((), {"CARICO_AGENT_ACCOUNT": "1"}, "variable CARICO_AGENT_ACCOUNT; no similar name exists"),
        (("--scope", "none"), {}, "--scope: got 'none', expected one of host, cgroup"),
        (("--sample-hz", "ten"), {}, "--sample-hz: got 'ten', expected a number from 1 to 100, in Hz"),
        (("--sample-hz", "nan"), {}, "--sample-hz: got 'nan', expected a number from 1 to 100, in Hz"),
        ((), {"CARICO_AGENT_SAMPLE_HZ": "1e9"}, "CARICO_AGENT_SAMPLE_HZ: got '1e9', expected a number from 1 to 100"),
        (("--batch", "0"), {}, "--batch: got '0', expected a whole number of at least 1"),
        (("--scope", "cgrop"), {}, "--scope: got 'cgrop', expected one of host, cgroup (nearest: cgroup)"),
        (
            ("--dims", "cpu,memry"),
            {},
            "--dims: got 'cpu,memry', expected one of cpu, memory, disk, separated by commas",
        ),
        (("--verbose=maybe",), {}, "--verbose: got 'maybe', expected true or false"),
        (("--batch",), {}, "--batch has no value, expected a whole number"),
        (("stray",), {}, "got argument 'stray', expected flags only"),
        (("--node=n", "--batch=60", "--sample-hz=2"), {}, "batch: got 60, expected at most 50 below 5 Hz"),
        (("--no-batch",), {}, "unknown flag --no-batch"),
    ],
)
def test_a_mistake_is_one_line_with_what_was_expected(
    argv: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    assert said in refusal(*argv, **environ)


def test_strangers_of_other_groups_are_left_alone() -> None:
    assert load("--node", "n1", CARICO_SCHEDULER_ANYTHING="1", CARICO_AGENTS="3").node == "n1"


def test_help_shows_meaning_unit_default_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load("--help")
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert "--sample-hz  (a number from 1 to 100, in Hz; default 10; CARICO_AGENT_SAMPLE_HZ)" in shown
    assert "samples (section 1)" in shown
    assert "default required" in shown
    assert "--bus-lease-s" in shown


def test_describe_lists_every_field_for_the_documentation() -> None:
    found = {one.variable: one for one in settings.describe(Example, prefix="AGENT")}
    assert found["CARICO_AGENT_DIMS"].default_text == "cpu,memory"
    assert found["CARICO_AGENT_NODE"].default_text == "required"
    assert found["CARICO_BUS_LEASE_S"].unit == "s"
    assert len(found) == 13


def test_a_kubeconfig_is_named_as_everywhere() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Kube:
        kubeconfig: str = ""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class WithKube:
        kube: Kube = dataclasses.field(default_factory=Kube)

    def kubeconfig(*argv: str, **environ: str) -> str:
        return settings.load(WithKube, prefix="AGENT", argv=argv, environ=environ, program="x").kube.kubeconfig

    assert kubeconfig("--kubeconfig", "/a", KUBECONFIG="/b") == "/a"
    assert kubeconfig(KUBECONFIG="/b") == "/b"
    assert kubeconfig(KUBECONFIG="/b", CARICO_KUBE_KUBECONFIG="/c") == "/c"


def test_a_type_that_settings_cannot_have_is_a_programming_error() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Wrong:
        things: dict[str, str] = setting(None, help="no")

    with pytest.raises(TypeError, match="settings cannot be of type"):
        settings.describe(Wrong, prefix="X")


def test_help_into_a_closed_pipe_ends_quietly() -> None:
    program = (
        "from carico_core.runtime.bus import port\nfrom carico_core.runtime.process import settings\n"
        "settings.load(port.BusSettings, prefix='bus', program='x')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")

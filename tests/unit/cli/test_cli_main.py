"""Exit codes of the command, and the one line that each ending says."""

import asyncio
import gc
import os
import pathlib
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable

import pytest

from carico_cli import application, main
from carico_cli.shell import exits, settings
from carico_core.domain import errors
from carico_core.runtime.process import tasks
from tests.tools import carico_cli


def raising(error: BaseException) -> Callable[..., int]:
    def instead(*_: object, **__: object) -> int:
        raise error

    return instead


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "carico: interrupted\n"),
        (asyncio.CancelledError(), 130, "carico: interrupted\n"),
        (errors.SettingsError("--pods: got 0"), 2, "carico: --pods: got 0\n"),
        (errors.BusUnavailable("no bus"), 1, "carico: no bus\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_ending_has_its_code_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(application.cli, "main", raising(error))
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("ending", [lambda: 0, raising(KeyboardInterrupt())], ids=["done", "interrupted"])
def test_another_ctrl_c_at_the_very_end_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: Callable[[], int]
) -> None:
    handle = signal.signal
    pending = [KeyboardInterrupt()]

    def deliver(number: int, handler: signal.Handlers) -> object:
        # As CPython does, which raises what is pending when the next function begins.
        if handler is signal.SIG_IGN and pending:
            raise pending.pop()
        return handle(number, handler)

    monkeypatch.setattr(application, "run", ending)
    monkeypatch.setattr(signal, "signal", deliver)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == exits.INTERRUPTED
    assert capsys.readouterr().err == "carico: interrupted\n"


def test_a_command_looks_for_garbage_rarely_and_leaves_the_collector_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = gc.get_threshold()
    within: list[tuple[int, int, int]] = []

    def run() -> int:
        within.append(gc.get_threshold())
        return 0

    monkeypatch.setattr(application, "run", run)
    with pytest.raises(SystemExit):
        main.main()
    assert within[0][0] > 10 * max(before[0], 1)
    assert gc.get_threshold() == before


@pytest.mark.parametrize("argv", [("--help",), ("logs", "--help")])
def test_standard_output_on_a_full_disk_is_one_line(argv: tuple[str, ...]) -> None:
    # In a process of its own: Python writes what is left once more as it ends.
    with pathlib.Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "carico_cli", *argv], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False,
        )  # fmt: skip
    assert ended.returncode == exits.FAILED
    assert ended.stderr == "carico: cannot write to standard output: No space left on device\n"


def test_the_command_and_the_services_end_with_the_same_codes() -> None:
    # The command has them by itself: it must not import what runs a service to say that a flag is wrong.
    assert (exits.FAILED, exits.USER_ERROR) == (tasks.EXIT_FAILED, tasks.EXIT_USER_ERROR)


def test_an_interrupt_while_modules_are_read_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        """A finder under which the first import that is not cached is interrupted."""

        def find_spec(self, name: str, *_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "carico_cli.application")
    monkeypatch.delattr("carico_cli.application")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "carico: interrupted\n"


def test_an_interrupt_ends_the_reading_of_modules_wherever_it_comes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also in a callback out of which no exception comes, and where a script had it ignored."""

    class Module:
        """Something to be forgotten."""

    def reading_modules() -> int:
        module = Module()
        told = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
        del module
        assert told() is None
        return 0

    codes: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(application, "run", reading_modules)
    with pytest.raises(SystemExit):
        main.main()
    assert codes == [130]
    assert capfd.readouterr().err == "carico: interrupted\n"


def test_an_interrupt_of_a_command_is_an_exception_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(settings, "check", lambda _: signal.raise_signal(signal.SIGINT))
    assert carico_cli.run(monkeypatch, "env") == 130
    assert capsys.readouterr().err.strip() == "carico: interrupted"


def test_a_package_that_is_missing_is_reported_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(application.COMMANDS, "env", "there_is_no_such_module:command")
    assert carico_cli.run(monkeypatch, "env") == 2
    assert "`make install`" in capsys.readouterr().err


def test_a_choice_that_is_missing_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, "submit") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "pi, train, mixed, server" in said


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("submit", "trian"), "train"),
        (("submit", "pp"), "pi"),
        (("bus-config", "Sttic"), "static"),
        (("submit", "xyzzy"), None),
    ],
)
def test_a_choice_that_is_mistyped_gets_the_nearest_one(
    words: tuple[str, ...], near: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, *words) == exits.USER_ERROR
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(f" Did you mean {near!r}?\n") is (near is not None)
    assert ("Did you mean" in said) is (near is not None)


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("evaluate", "--beside", "x"), "--compare-with"),
        (("up", "--node-base", "debian:12"), "need no image"),
        (("demo", "--node-base=debian:12"), "need no image"),
        (("bus-config", "loopback"), "`carico env`"),
        (("evaluate", "--scheduler", "vector", "--quick"), "use footprint"),
    ],
)
def test_what_was_removed_is_refused_with_what_replaces_it(
    words: tuple[str, ...], instead: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, *words) == exits.USER_ERROR
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "was removed: " in said and instead in said.partition("was removed: ")[2]


def test_an_option_before_the_command_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, "--name", "x", "status") == exits.USER_ERROR
    assert "Options come after the command: `carico COMMAND --name ...`\n" in capsys.readouterr().err
    assert carico_cli.run(monkeypatch, "status", "--nmae", "x") == exits.USER_ERROR
    assert "behind" not in capsys.readouterr().err


def test_the_list_of_commands_says_all_of_each_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert carico_cli.run(monkeypatch, "--help") == 0
    sections = capsys.readouterr().out.partition("\nRun a cluster:\n")[2].rstrip().splitlines()
    lines = [line for line in sections if line.startswith("  ")]
    assert [line for line in sections if line and line not in lines] == [
        "Submit and watch:", "Explain:", "Measure:", "Connect other tools:"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == list(application.COMMANDS)
    assert not any(line.endswith("...") for line in lines)


def test_the_help_imports_nothing_that_only_a_command_needs() -> None:
    # In a process of its own: here everything is imported already.
    code = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from carico_cli import main\n"
        "slow = {'asyncio', 'ctypes', 'structlog', 'numpy', 'aiohttp', 'nats', 'pathlib', 'textual', 'yaml'}\n"
        "try: main.main()\n"
        "finally: print(*sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and "Run a cluster:" in ended.stdout
    assert ended.stderr == "\n"


# Neither streams, arrays nor what starts services; NATS's services framework, records of Pods, workloads.
SLOW_TO_IMPORT = {
    "aiohttp", "numpy", "nacl", "statistics", "nats.micro", "carico_core.domain.cluster", "carico_local.workloads",
    "carico_local.cluster.services.topology",
}  # fmt: skip
# What reads messages of the bus, and lists of the API.
READS_SIGNALS = {"msgspec", "carico_core.domain.messages", "carico_core.runtime.kube.list_watch", "httptools"}


@pytest.mark.parametrize(
    ("imports", "unwanted"),
    [
        ("carico_cli.clusters.listing", SLOW_TO_IMPORT | READS_SIGNALS | {"nats"}),
        ("carico_cli.explain.command", SLOW_TO_IMPORT | READS_SIGNALS),
        ("carico_cli.clusters.lifecycle", {"numpy", "msgspec", "aiohttp", "carico_core.domain.messages"}),
        ("carico_cli.clusters.status, carico_cli.live.reader, carico_core.runtime.kube.api_client", SLOW_TO_IMPORT),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(imports: str, unwanted: set[str]) -> None:
    code = f"import sys, carico_cli.application, {imports}\nprint(*sorted({unwanted} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [("carico expl", {"explain"}), ("carico submit m", {"mixed", "mlp"}), ("carico status --na", {"--name"})],
)
def test_a_shell_completes_commands_choices_and_flags(
    words: str, expected: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As README.md says how: each line is a kind and a word."""
    monkeypatch.setenv("_CARICO_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert carico_cli.run(monkeypatch) == 0
    assert {line.partition(",")[2] for line in capsys.readouterr().out.splitlines()} == expected


def test_without_a_word_the_command_explains_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["carico"])
    monkeypatch.setenv("HOME", os.sep)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Usage: carico")

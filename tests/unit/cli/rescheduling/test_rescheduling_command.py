"""`carico reschedule`: files and figures of a plan, its time, and one line for what cannot be used."""

import copy
import functools
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from carico_cli.rescheduling import problem_file
from carico_core.domain import errors
from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.services import search
from tests.tools import carico_cli
from tests.unit.cli.rescheduling import plan_checker, problem_files

Carico = Callable[..., int]


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch, "reschedule")


@pytest.fixture
def problem(tmp_path: pathlib.Path) -> pathlib.Path:
    return problem_files.write(tmp_path / "problem.json")


def test_placement_and_moves_are_written(
    carico: Carico, problem: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, moves = tmp_path / "placement.json", tmp_path / "moves.json"
    assert carico("--problem", problem, "--proposals", 3000, "--out", out, "--moves-out", moves, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    # cache-0 joins web: 3/4 of the traffic is local, before it was cache to batch: 1/4.
    assert json.loads(moves.read_text()) == [["cache-0", "b", "a"]]
    placed = {machine: sorted(containers) for machine, containers in json.loads(out.read_text()).items()}
    assert placed == {"a": ["cache-0", "web-0", "web-1"], "b": ["batch-0"]}
    assert found["local_before"] == pytest.approx(0.25) and found["local_after"] == pytest.approx(0.75)
    assert (found["moved"], found["steps"], found["parked"], found["blocked"]) == (1, 1, 0, 0)


@pytest.mark.parametrize("seed", range(25))
def test_a_random_problem_is_solved_as_an_independent_checker_wants_it(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    made = problem_files.random(seed)
    problem, out, moves = problem_files.write(tmp_path / "p.json", made), tmp_path / "out.json", tmp_path / "moves.json"
    checker = plan_checker.Checker(made)
    for limit in (None, 0, 3):
        flags = () if limit is None else ("--max-moves", limit)
        assert (
            carico("--problem", problem, "--proposals", 1500, "--out", out, "--moves-out", moves, "-o", "json", *flags)
            == 0
        )
        found = json.loads(capsys.readouterr().out)
        assert list(checker.wrong(json.loads(out.read_text()), json.loads(moves.read_text()), found, limit)) == []


def test_the_checker_finds_what_is_wrong() -> None:
    checker = plan_checker.Checker(problem_files.SMALL)
    found = {"local_before": 0.25, "local_after": 0.75, "steps": 1, "moved": 1, "containers": 4}
    placed = {"a": ["web-0", "web-1", "cache-0"], "b": ["batch-0"]}
    assert list(checker.wrong(placed, [["cache-0", "b", "a"]], found, 1)) == []
    assert len(list(checker.wrong(placed, [["cache-0", "b", "a"]], {**found, "local_after": 0.8}, 0))) == 2
    assert list(checker.wrong({**placed, "b": []}, [], found, None)) == [
        "the placement does not have each container once"
    ]
    full = {"a": ["web-0", "web-1", "cache-0", "batch-0"], "b": []}
    steps = [["cache-0", "b", "a"], ["batch-0", "b", "a"]]
    wrong = list(checker.wrong(full, steps, {**found, "local_after": 1.0, "steps": 2, "moved": 2}, None))
    assert wrong[0] == "move 1: batch-0 may not be on a" and "old and new present: a has 0.4" in wrong[1]


def test_the_figures_are_printed(
    carico: Carico, problem: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert carico("--problem", problem, "--proposals", 3000, "--max-moves", 2) == 0
    out = capsys.readouterr().out
    for part in ("25.0% before, 75.0% after", "1 of 4 (25.0%; limit 2)", "steps blocked", "proposals"):
        assert part in out


def test_a_curve_has_a_point_for_each_limit(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, curve = problem_files.write(tmp_path / "problem.json", problem_files.pairs(50)), tmp_path / "curve.json"
    assert carico("--problem", problem, "--proposals", 4000, "--max-moves", 12, "--curve-out", curve) == 0
    points = json.loads(curve.read_text())
    assert [point["max_moves"] for point in points] == [1, 2, 5, 10, 12]
    assert [point["moved"] for point in points] == [1, 2, 5, 10, 12]
    # Each of the 50 pairs is apart, and one move joins it.
    assert [point["local"] for point in points] == pytest.approx([0.02, 0.04, 0.1, 0.2, 0.24])
    assert "MAX MOVES" in capsys.readouterr().out


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_search_without_numba_says_that_it_is_slow(
    carico: Carico, monkeypatch: pytest.MonkeyPatch, problem: pathlib.Path, capsys: pytest.CaptureFixture[str],
    is_compiled: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(compiled, "IS_COMPILED", is_compiled)
    monkeypatch.setattr(search, "prepare", lambda: False)
    assert carico("--problem", problem, "--proposals", 10, "--out", "/dev/null", "--moves-out", "/dev/null") == 0
    said = "numba is not installed: the search runs in Python, some 100 times slower (pip install 'carico-cli[fast]')\n"
    assert capsys.readouterr().err == ("" if is_compiled else said)


def test_without_moves_nothing_moves(carico: Carico, problem: pathlib.Path, tmp_path: pathlib.Path) -> None:
    moves = tmp_path / "moves.json"
    assert carico("--problem", problem, "--proposals", 3000, "--max-moves", 0, "--moves-out", moves) == 0
    assert json.loads(moves.read_text()) == []


def test_a_time_is_kept(carico: Carico, problem: pathlib.Path) -> None:
    # Compiled before: the time does not include it.
    search.prepare()
    began_s = time.monotonic()
    assert carico("--problem", problem, "--seconds", 0.5) == 0
    assert time.monotonic() - began_s < 4 * 0.5


def test_a_time_that_is_too_short_is_exceeded_with_a_line(
    carico: Carico, problem: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search.prepare()
    placement = tmp_path / "placement.json"
    assert carico("--problem", problem, "--seconds", 1e-6, "--out", placement, "-o", "json") == 0
    seen = capsys.readouterr()
    assert "s, not 1e-06: to start and to read the problem takes longer than --seconds" in seen.err
    assert json.loads(seen.out)["moved"] == 0
    assert json.loads(placement.read_text()).keys() == {"a", "b"}


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return the small problem after a change in place."""
    problem = copy.deepcopy(problem_files.SMALL)
    change(problem)
    return problem


WRONG: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda p: p.pop("MachineList"), "missing required field `MachineList`"),
    (lambda p: p["ServiceList"][1].pop("RequestCPU"), "missing required field `RequestCPU` - at `$.ServiceList[1]`"),
    (lambda p: p["ServiceList"][0].update(RequestMem="much"), "Expected `float`, got `str` - at `$.ServiceList[0]"),
    (lambda p: p["ServiceList"][0].update(ContainerList=[]), "length >= 1 - at `$.ServiceList[0].ContainerList`"),
    (lambda p: p["TrafficList"][1].update(Traffic=-1.0), "`float` >= 0.0 - at `$.TrafficList[1].Traffic`"),
    (lambda p: p["TrafficList"][1].update(Traffic=1e308), "`float` <= 1e+100 - at `$.TrafficList[1].Traffic`"),
    (lambda p: p["TrafficList"][1].update(Traffic=float("nan")), "got NaN at byte"),
    (lambda p: p["MachineList"][0].update(TotalCPU=float("inf")), "got Infinity at byte"),
    (lambda p: p["TrafficList"][0].update(Service2="db"), "TrafficList: unknown service 'db'"),
    (lambda p: p["TrafficList"][0].update(Service2="web"), "got 'web' with itself"),
    (lambda p: p["ServiceList"][2].update(CompatibleMachines=["c"]), "of 'batch': unknown machine 'c'"),
    (lambda p: p["ServiceList"][2].update(Service="web"), "got service 'web' 2 times"),
    (lambda p: p["MachineList"][1].update(MachineIP="a"), "got machine 'a' 2 times"),
    (lambda p: p["ServiceList"][1].update(ContainerList=["web-0"]), "got container 'web-0' 2 times"),
    (lambda p: p["MachineList"][0]["InitialDeployingContainers"].append("x-0"), "of 'a': unknown container 'x-0'"),
    (lambda p: p["MachineList"][0]["InitialDeployingContainers"].append("batch-0"), "got container 'batch-0' on two"),
    (lambda p: p["MachineList"][0]["InitialDeployingContainers"].pop(), "no machine for 1 container, the first"),
    (lambda p: p["MachineList"][0].update(TotalMem=0.15), "on machine 'a' request 0.2 of memory, it has 0.15"),
    (lambda p: p["ServiceList"][2].update(CompatibleMachines=["a"]), "machine 'b' has containers of 'batch'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_problem_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: pathlib.Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    path = problem_files.write(tmp_path / "problem.json", changed(change))
    with pytest.raises(errors.SettingsError) as refused:
        problem_file.read(path)
    assert said in str(refused.value) and str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


# Too deep for any parser.
DEEP = b'{"x":' + b"[" * 100_000


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", json.dumps(problem_files.SMALL).encode()[:-9], DEEP],
    ids=["empty", "cut", "list", "binary", "cut at its end", "deep"],
)
def test_a_file_that_is_no_problem_is_refused(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "problem.json"
    path.write_bytes(content)
    assert carico("--problem", path) == 2
    seen = capsys.readouterr()
    assert "expected a problem as docs/rescheduling.md describes it" in seen.err
    assert seen.err.count("\n") == 1 and not seen.out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-moves", "-1"], "'--max-moves': -1 is not in the range x>=0"),
        (["--max-moves", "many"], "'many' is not a valid integer"),
        (["--seconds", "0"], "--seconds: got 0, expected a number above 0"),
        (["--seconds", "nan"], "--seconds: got nan"),
        (["--seconds", "inf"], "--seconds: got inf"),
        (["--seed", "-1"], "'--seed': -1 is not in the range"),
        (["--proposals", "0"], "'--proposals': 0 is not in the range"),
        (["--seconds", "1", "--proposals", "9"], "got both, expected one of them"),
        (["--out", "{folder}/none/p.json"], "expected a file in a directory that exists"),
        (["--moves-out", "{folder}"], "expected a file in a directory that exists"),
        (["--out", "{folder}/x", "--moves-out", "{folder}/../{name}/x"], "--out and --moves-out: got"),
        (["--out", "{folder}/x", "--curve-out", "{folder}/x"], "for both, expected a file for each"),
        (["--algorithm", "ws-sa"], "--algorithm and --problem: got both, but --algorithm is for a running cluster"),
        (["--name", "zzz"], "--name is for a running cluster"),
        (["--nats-url", "nats://127.0.0.1:4222"], "--nats-url is for a running cluster"),
        (["--kubeconfig", "/nope"], "--kubeconfig is for a running cluster"),
        (["--context", "kind"], "--context is for a running cluster"),
        (["--problem", "{folder}/none.json"], "none.json: cannot be read (No such file or directory)"),
    ],
)
def test_wrong_flags_are_refused_before_the_search(
    carico: Carico, problem: pathlib.Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    given = [flag.format(folder=problem.parent, name=problem.parent.name) for flag in flags]
    assert carico("--problem", problem, *given) == 2
    seen = capsys.readouterr()
    assert said in seen.err and seen.err.count("\n") == 1 and not seen.out

"""Write the tables of docs/evaluation.md from an evaluation: `python -m tests.tools.make.evaluation_page FILE`.

FILE is the `evaluation.json` of a complete `carico evaluate --ablation`. The text around the tables is written by hand:
read it again afterwards, since it explains the figures.
"""

import functools
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from carico_cli.evaluation import text
from carico_cli.output import words
from carico_cli.reference import pages

PAGE = pathlib.Path(__file__).parents[3] / "docs/evaluation.md"
Json: TypeAlias = Mapping[str, Any]
Maker: TypeAlias = Callable[[Json], str]
PAPER = "paper"
_KUBE = ("kube-100m", "kube-200m", "kube-500m", "kube-1000m")
_FIGURES = {"job_s": "job time", "pod_s.mean": "mean Pod time"}


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    if len(arguments) != 1:
        print("expected one file: the evaluation.json of `carico evaluate --ablation`", file=sys.stderr)
        return 2
    found = orjson.loads(pathlib.Path(arguments[0]).read_bytes())
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


def written(page: str, found: Json) -> str:
    """Return the page's text with its tables written again."""
    makers: dict[str, Maker] = {
        "targets": targets, "scenarios": scenarios, "means": means, "requests": published_requests,
        "published": published_carico, "statements": statements, "ablation": ablation, "faults": faults,
    }  # fmt: skip
    parts: dict[str, Callable[[], str]] = {name: functools.partial(maker, found) for name, maker in makers.items()}
    return pages.written(pages.Page(path=str(PAGE), parts=parts), page)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in map(list, lines)
    )


def targets(found: Json) -> str:
    """Each target with its value and its bound."""
    rows = []
    for each in found["targets"]:
        verdict = {"met": "met", "missed": "**missed**"}.get(each["verdict"], each["verdict"])
        unit = f" {each['unit']}" if each["unit"] else ""
        value, bound = ("unknown" if each[name] is None else f"{each[name]:.4g}" for name in ("value", "bound"))
        rows.append((each["name"], f"{value}{unit}", bound, verdict))
    return table(("target", "reached", "bound", ""), rows)


def scenarios(found: Json) -> str:
    """Of each scenario CARICO's default, and the best of each other family."""
    rows = []
    for plan, cells in found["scenarios"].items():
        best = found["best"][plan]
        row = [plan, _three(cells[found["default"]])]
        for family in ("kube", "constant", "oracle"):
            name = best[family]
            shown = "-" if name is None else _three(cells[name])
            row.append(shown if name in (None, family) else f"{shown} ({name})")
        rows.append(row)
    return table(("scenario", "CARICO (default)", "kube-scheduler's best", "best constant", "oracle"), rows)


def _three(cell: Json) -> str:
    """Return job time / mean Pod time / slowdown, and the memory overrun where there is any."""
    mean = {name: each[0] for name, each in cell["figures"].items()}
    shown = f"{mean['job_s']:.1f} / {mean['pod_mean_s']:.2f} / {mean['slowdown']:.3f}"
    return shown if not mean["overrun_node_s"] else f"{shown} / {mean['overrun_node_s']:.0f}"


def means(found: Json) -> str:
    """The means over all scenarios, as the command prints them."""
    lines = [*textwrap.wrap(text.result(found), words.WIDTH), "", *text.summaries(found).lines()]
    return "\n".join(["```", *lines, "```"])


def published_requests(found: Json) -> str:
    """The published numbers of kube-scheduler next to the twin's."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for each in _published(found):
        if each["contender"] in _KUBE:
            shown = f"{text.with_sd(each)} / {each['twin'][0]:.1f} ({each['error']:+.0%})"
            places.setdefault((_what(each), each["where"]), {})[each["contender"]] = shown.replace("%", " %")
    rows = [(what, *(cells.get(name, "") for name in _KUBE), where) for (what, where), cells in places.items()]
    return table(("kube-scheduler", *(name.removeprefix("kube-") for name in _KUBE), "where"), rows)


def published_carico(found: Json) -> str:
    """The published numbers of CARICO next to the twin's, with the default estimator and with the paper's."""
    ours = (found["default"], PAPER)
    places: dict[tuple[str, str, str], dict[str, str]] = {}
    for each in _published(found):
        if each["contender"] not in _KUBE:
            shown = f"{each['twin'][0]:.1f} ({each['error']:+.0%})".replace("%", " %")
            places.setdefault((_what(each), text.with_sd(each), each["where"]), {})[each["twin_contender"]] = shown
    rows = [
        (what, value, *(cells.get(name, "") for name in ours), where) for (what, value, where), cells in places.items()
    ]
    return table(("CARICO", "published", *(f"`{name}`" for name in ours), "where"), rows)


def _published(found: Json) -> Iterator[Json]:
    return (each for each in found["calibration"] if each["figure"] in _FIGURES)


def _what(each: Json) -> str:
    figure = _FIGURES[each["figure"]]
    return f"{each['plan']}, {figure}" if figure == "job time" else f"{each['plan']}, {figure} of {each['job']}"


def statements(found: Json) -> str:
    """The dissertation's statements, and whether the twin reproduces them."""
    verdicts = {True: "yes", False: "**no**", None: ""}
    said: dict[str, dict[str, str]] = {}
    for each in found["shapes"]:
        verdict = "better" if each["better"] else verdicts[each["reproduced"]]
        said.setdefault(each["says"], {})[each["mode"]] = verdict
    rows = []
    for statement, by_mode in said.items():
        # One that is of kube-scheduler alone has one verdict, of no mode of ours.
        default = by_mode.get(found["default"], next(iter(by_mode.values())))
        rows.append((statement, default, by_mode.get(PAPER, "")))
    return table(("statement (published)", f"`{found['default']}`", f"`{PAPER}`"), rows)


def ablation(found: Json) -> str:
    """Each step and rule changed alone."""
    rows = [
        (
            each["name"], f"{each['total']['job_s']:.2f} s", f"{each['total']['slowdown']:.3f}",
            f"{each['job_ratio']:.3f}", f"{each['slowdown_ratio']:.3f}", f"{each['total']['overrun_node_s']:.0f}",
        )
        for each in found["ablation"]
    ]  # fmt: skip
    head = ("one thing changed", "job time", "slowdown", "job time, ratio", "slowdown, ratio", "memory overrun, node-s")
    return table(head, rows)


def faults(found: Json) -> str:
    """Job time and slowdown with each fault, for the default and for variants of it."""
    names = list(dict.fromkeys(name for cells in found["faults"].values() for name in cells))
    rows = [
        (plan, *(_two(cells[name]) if name in cells else "" for name in names))
        for plan, cells in found["faults"].items()
    ]
    return table(("fault", *names), rows)


def _two(cell: Json) -> str:
    figures = cell["figures"]
    return f"{figures['job_s'][0]:.1f} / {figures['slowdown'][0]:.3f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

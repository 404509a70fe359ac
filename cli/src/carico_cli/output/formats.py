"""How an answer is printed: as a table of plain text, or with `-o json|wide`, as in kubectl."""

import enum
import functools
import math
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import orjson

from carico_core.domain import amounts

# The first column of a table is never shortened below this.
_FIRST_LEAST = 12


class Output(enum.StrEnum):
    """A format of `-o`."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


def flag(*kinds: Output) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -o, and --json as a short form of `-o json`; the command receives `output`."""
    shown = " or ".join(f"{kind} ({_MEANING[kind]})" for kind in kinds)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*arguments: Any, output: str | None, as_json: bool, **named: Any) -> Any:
            if as_json and output not in (None, Output.JSON):
                raise click.UsageError(f"--json and -o {output}: got both, expected one of them")
            chosen = Output.JSON if as_json else Output(output or Output.TEXT)
            return function(*arguments, output=chosen, **named)

        command = click.option("--json", "as_json", is_flag=True, help="Same as -o json.")(command)
        choice = click.Choice([kind.value for kind in kinds])
        return click.option("-o", "--output", type=choice, help=f"Print {shown} (default: text).")(command)

    return decorate


def printable(text: str, *, kept: str = "\n\t") -> str:
    """Return the text with escapes in place of all that may move a cursor, set a title or turn the direction around.

    Names of images, words of Events and lines of logs may contain anything. In JSON the escapes mean the same.

    >>> print(printable("a\\x1b[2J\\u202eb\\U000e0001"))
    a\\u001b[2J\\u202eb\\udb40\\udc01
    """
    if text.translate(dict.fromkeys(map(ord, kept))).isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else _escaped(each) for each in text)


def line(text: str) -> str:
    """Return what others have written as a part of one line: `printable`, and a blank for each line break.

    >>> print(line("a\\x1b[2J\\n\\n  b"))
    a\\u001b[2J b
    """
    return text if text.isprintable() else printable(" ".join(text.split()), kept="")


def one_line(message: object) -> str:
    """Return a message of the API without its line breaks; empty for None."""
    return " ".join(str(message or "").split())


def say(text: str, *, err: bool = False) -> None:
    """Print what a command has to say: whatever others have written, the terminal only shows it."""
    click.echo(printable(text), err=err)  # noqa: TID251


def json_text(answer: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return indented JSON."""
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()


_MEANING = {Output.JSON: "for scripts", Output.WIDE: "more columns, every row"}


def cell(value: object) -> str:
    """Return a value as a table shows it.

    >>> cell(None), cell(True), cell(2)
    ('-', 'yes', '2')
    """
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with this many decimals; a dash where it is not known or not finite.

    >>> number(2.04), number(-0.004), number(None), number(math.inf)
    ('2.04', '0.00', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else amounts.number(value, digits)


def percent(share: float | None, digits: int = 2) -> str:
    """Return a share as a number of percent; a dash where it is not known."""
    return number(None if share is None else 100.0 * share, digits)


def duration(seconds: float | None) -> str:
    """Return a duration; a dash where it is not known.

    >>> duration(0.00004), duration(0.0042), duration(3.21), duration(318.0), duration(9000.0), duration(None)
    ('40 µs', '4 ms', '3.2 s', '5 min', '2.5 h', '-')
    """
    if seconds is None:
        return "-"
    if seconds <= 0.0:
        return "0 s"
    if seconds < 0.0009995:
        return f"{1e6 * seconds:.0f} µs"
    if seconds < 0.9995:
        return f"{1000.0 * seconds:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.1f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7170.0 else f"{seconds / 3600.0:.1f} h"


def aligned(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int | None = 1, width: int | None = None
) -> list[str]:
    """Return a line for the head and one for each row; the first `left` columns (None: all) are aligned left.

    width: shorten the first column in its middle where lines would be longer.

    >>> aligned(("NODE", "PODS"), [("node-1", "7")])
    ['NODE    PODS', 'node-1     7']
    """
    table = [list(head), *([line(text) for text in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if width is not None:
        over = sum(widths) + 2 * (len(widths) - 1) - width
        widths[0] = max(widths[0] - max(over, 0), min(widths[0], _FIRST_LEAST))
    count = len(widths) if left is None else left
    return [_line(row, widths, count) for row in table]


def lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str, *, show: Callable[[object], str] = cell,
    width: int | None = None,
) -> list[str]:  # fmt: skip
    """Return records as a table, aligned left; `title` heads the first column, the columns' names the others.

    width: as of `aligned`.

    >>> lines([{"name": "node-1", "pods": None}], ("name", "pods"), "NODE")
    ['NODE    PODS', 'node-1  -']
    """
    head = [title, *(column.upper() for column in columns[1:])]
    return aligned(head, ([show(row[column]) for column in columns] for row in rows), left=None, width=width)


def next_steps(commands: Iterable[str]) -> str:
    """Return commands to run next, one a line, so that each can be copied.

    >>> print(next_steps(["carico status", "carico down"]))
    next:
      carico status
      carico down
    """
    return "\n".join(["next:", *(f"  {command}" for command in (*_activation(), *commands))])


def _activation() -> list[str]:
    """Return how this shell finds `carico`, where it was started by its path and the shell would not find it."""
    program = pathlib.Path(sys.argv[0])
    script = program.with_name("activate")
    if program.name != "carico" or shutil.which("carico") is not None or not script.is_file():
        return []
    return [f"source {shlex.quote(os.path.relpath(script))}"]


def shortened(text: str, width: int) -> str:
    """Return the text, without its middle where it is longer than `width`: names differ at their ends.

    >>> shortened("Job/default/a-very-long-name", 12)
    'Job/de~-name'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}~{text[len(text) - tail :]}"


def natural(name: str) -> tuple[object, ...]:
    """Return a sort key that puts node-2 before node-10.

    >>> sorted(["node-10", "node-2", "a"], key=natural)
    ['a', 'node-2', 'node-10']
    """
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return (head, int(tail) if tail else -1, name)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        shortened(text, width).ljust(width) if index < left else text.rjust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()

"""A command's report: its folder and its HTML page.

All pages have one shape: a sentence of result, when and how it was made, one picture, and folded details. A print has
the first page; what is not unfolded is left out. A page loads nothing from elsewhere.
"""

import contextlib
import dataclasses
import html
import pathlib
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from carico_cli.output import formats
from carico_core.domain import errors

# Larger than any report: a demo's takes half a megabyte.
TRIED_BYTES = 4 * 2**20
_TAG = re.compile(r"<[^>]*>")
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2340; --paper: #ffffff; --line: #d5daea; --good: #1a7f37; --bad: #b42318 }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f5; --paper: #14182a; --line: #353c5c; --good: #57c27a; --bad: #ff8b7e }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.met, .yes { color: var(--good) } .missed, .no { color: var(--bad); font-weight: 600 }
.note { opacity: .8 } figure { margin: 2rem 0 } figure svg { width: 100%; height: auto } figcaption { opacity: .85 }
.result { font-size: 1.2rem } summary { cursor: pointer; font-weight: 600; margin: 1rem 0 }
@media print {
  body { margin: 0 auto; font-size: 12px } figure { margin: 1rem 0 } details:not([open]) { display: none }
  .wide { overflow: visible } tr, figure { break-inside: avoid } h2, h3, h4, summary { break-after: avoid }
}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The parts of a page. result, origin and notes are text, picture is HTML; details: title and HTML of each."""

    title: str
    result: str
    origin: str
    picture: str
    details: Sequence[tuple[str, str]]
    notes: Sequence[str]


def check(folder: pathlib.Path, *, flag: str = "--out") -> None:
    """Make the folder and check, before an hour of work, that a report fits there. Raises `EnvironmentUnfit`."""
    with _translated(folder, flag):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(TRIED_BYTES))


def write(folder: pathlib.Path, files: Mapping[str, bytes], *, flag: str = "--out") -> None:
    """Write the files into the folder. Raises `EnvironmentUnfit` as `check` does."""
    with _translated(folder, flag):
        for name, content in files.items():
            (folder / name).write_bytes(content)


def deliver(
    out: pathlib.Path, name: str, found: Mapping[str, Any], *, page: Callable[[Any], str], text: Callable[[Any], str],
    as_json: bool = False, err: bool = False,
) -> None:  # fmt: skip
    """Print a report's text or JSON, write NAME.json and NAME.html, and say where they are, on stderr if `err`."""
    written = formats.json_text(found)
    files = {f"{name}.json": written.encode(), f"{name}.html": page(found).encode()}
    try:
        formats.say(written if as_json else text(found))
    finally:
        # Even if standard output was closed (`--json | head`): it is the work of an hour.
        write(out, files)
    formats.say(f"report: {' and '.join(str(out / file) for file in files)}", err=err)


def stamp(ended_at_ns: int) -> dict[str, Any]:
    """Return what a report states about its origin: when its work ended (Unix ns), the version and the command."""
    return {
        "ended_at_ns": ended_at_ns, "carico_version": metadata.version("carico-cli"),
        "command": shlex.join(["carico", *sys.argv[1:]]),
    }  # fmt: skip


def origin(found: Mapping[str, Any]) -> str:
    """Return the stamp of a report in words; what it does not have is left out."""
    ended_ns, version, command = (found.get(name) for name in ("ended_at_ns", "carico_version", "command"))
    parts = (
        None if ended_ns is None else time.strftime("%-d %B %Y, %H:%M %Z", time.localtime(ended_ns / 1e9)),
        None if version is None else f"CARICO {version}",
        None if command is None else f"`{command}`",
    )
    return "; ".join(part for part in parts if part is not None)


def document(page: Page, *, style: str = "") -> str:
    """Return the whole page; `style` is CSS added to that of all reports."""
    notes = "".join(f'<p class="note">Note: {html.escape(note)}</p>' for note in page.notes)
    details = "\n".join(
        f"<details><summary>{html.escape(title)}</summary>{inside}</details>" for title, inside in page.details
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(page.title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}{style}</style></head><body>\n'
        f'<h1>{html.escape(page.title)}</h1>\n<p class="result">{html.escape(page.result)}</p>'
        f'<p class="note">{html.escape(page.origin)}</p>{notes}{page.picture}\n{details}\n</body></html>\n'
    )


class Table(NamedTuple):
    """A table of plain text, whose first `texts` columns are aligned left."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1

    def lines(self) -> list[str]:
        """Return head and rows for a terminal."""
        return formats.aligned(self.head, self.rows, left=self.texts)

    def as_html(self, *, ours: Container[int] = ()) -> str:
        """Return head and rows for a page. `ours`: rows that are marked."""
        return table(self.head, self.rows, texts=self.texts, ours=ours)


class Html(str):
    """HTML: a cell that is not escaped."""

    __slots__ = ()


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1, ours: Container[int] = ()) -> str:
    """Return a table; from column `texts` on, those without words are aligned right. `ours`: rows that are marked."""
    rows = list(rows)
    words = {place for row in rows for place, cell in enumerate(row) if _TAG.sub("", cell)[:1].isalpha()}

    def line(row: Sequence[str], tag: str, kind: str = "") -> str:
        cells = (
            f"<{tag}{'' if place < texts or place in words else ' class=n'}>"
            f"{cell if isinstance(cell, Html) else html.escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        return f"<tr{kind}>{''.join(cells)}</tr>"

    body = "".join(line(row, "td", " class=ours" if place in ours else "") for place, row in enumerate(rows))
    return f'<div class="wide"><table>{line(head, "th") if any(head) else ""}{body}</table></div>'


def verdict(word: str) -> Html:
    """Return met, missed or unknown in its colour."""
    return Html(f'<span class="{word}">{word}</span>')


def verdicts(found: Iterable[tuple[str, str]]) -> str:
    """Return a list of verdicts, each with what it is about."""
    return f"<ul>{''.join(f'<li>{verdict(word)} {html.escape(what)}</li>' for word, what in found)}</ul>"


def figure(svg: str, caption: str) -> str:
    """Return a chart with its caption."""
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


@contextlib.contextmanager
def _translated(folder: pathlib.Path, flag: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"{flag}: cannot write to {folder} ({error.strerror}): choose another folder"
        ) from error

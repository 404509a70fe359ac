"""A command's report: its folder and its HTML page. A page loads nothing from elsewhere."""

import contextlib
import html
import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from carico_core.domain import errors

# Larger than any report: a demo's takes half a megabyte.
TRIED_BYTES = 4 * 2**20
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
@media print {
  .wide { overflow: visible } details::details-content { content-visibility: visible; block-size: auto }
  tr, figure { break-inside: avoid } h2, h3, h4, summary { break-after: avoid }
}
"""


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


def document(title: str, body: str, *, style: str = "") -> str:
    """Return a whole page; `body` is HTML, `style` CSS added to that of all reports."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}{style}</style></head><body>\n'
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def figure(svg: str, caption: str) -> str:
    """Return a chart with its caption."""
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def day(report: Mapping[str, Any]) -> str:
    """Return when the work of a report ended, as a sentence; empty where that is not known."""
    ended_ns = report.get("ended_at_ns")
    return "" if ended_ns is None else time.strftime("%-d %B %Y, %H:%M %Z. ", time.localtime(ended_ns / 1e9))


@contextlib.contextmanager
def _translated(folder: pathlib.Path, flag: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"{flag}: cannot write to {folder} ({error.strerror}): choose another folder"
        ) from error

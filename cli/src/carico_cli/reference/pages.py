"""Writes the generated tables into the pages of docs/ that hold them."""

import dataclasses
import pathlib
import re
from collections.abc import Callable

from carico_cli.reference import metric_catalogue, rights_catalogue, setting_catalogue
from carico_core.domain import errors

_PART = re.compile(r"(<!-- begin (?P<name>[a-z]+): [^\n]*-->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and the function that writes each of its marked parts, by the part's name."""

    path: str
    parts: dict[str, Callable[[], str]]


PAGES = (
    Page(path="docs/metrics.md", parts={"metrics": metric_catalogue.tables}),
    Page(
        path="docs/settings.md",
        parts={"services": setting_catalogue.services, "commands": setting_catalogue.commands},
    ),
    Page(path="docs/security.md", parts={"rights": rights_catalogue.tables}),
)


def written(page: Page, text: str) -> str:
    """Return the page's text with new parts. Raises `SettingsError` where a mark is missing or unknown."""
    found = {match["name"] for match in _PART.finditer(text)}
    if found != set(page.parts):
        raise errors.SettingsError(f"{page.path}: got the parts {sorted(found)}, expected {sorted(page.parts)}")
    return _PART.sub(lambda match: f"{match[1]}{page.parts[match['name']]()}\n{match[3]}", text)


def write(root: pathlib.Path) -> list[str]:
    """Write the pages below the project's folder; return those that changed. Raises `SettingsError`."""
    changed = []
    for page in PAGES:
        path = root / page.path
        if not path.is_file():
            raise errors.SettingsError(f"{path} does not exist: run this in the project's folder, or give its path")
        before = path.read_text(encoding="utf-8")
        after = written(page, before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(page.path)
    return changed

"""Read the files of the page, each with its content type and a tag for browsers' caches."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping

FOLDER = pathlib.Path(__file__).parent / "page"
INDEX = "/"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it is sent."""

    content_type: str
    body: bytes
    tag: str


def read(folder: pathlib.Path = FOLDER) -> Mapping[str, File]:
    """Return path in the URL -> file; index.html is `/`. Files of unknown types are skipped."""
    found = {}
    for place in sorted(folder.rglob("*")):
        content_type = _TYPES.get(place.suffix)
        if content_type is None:
            continue
        body = place.read_bytes()
        name = INDEX if place.name == "index.html" else f"/{place.relative_to(folder).as_posix()}"
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found[name] = File(content_type=content_type, body=body, tag=tag)
    return found

"""Images without a builder: files of this machine, with the libraries they need, as an archive of one layer.

The format is that of `docker save` (https://github.com/moby/docker-image-spec, version 1.2), which containerd and every
engine import.
"""

import dataclasses
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping

from carico_core.domain import errors

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LAYER = "layer.tar"
# Files per command line; the limit on its length is far higher.
_FILES_AT_ONCE = 100
_LIBRARY = re.compile(r"^\t(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The content of an image: files by their path in it, scripts, links, environment and command."""

    tag: str
    files: Mapping[str, pathlib.Path]
    scripts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    links: Mapping[str, str] = dataclasses.field(default_factory=dict)
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key of the archive; it uses size and time of the files, since reading them all takes seconds."""
        known = hashlib.sha256()
        for name, path in sorted(self.files.items()):
            stat = path.stat()
            known.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        texts = (self.tag, dict(self.scripts), dict(self.links), dict(self.environ), self.command)
        known.update(json.dumps(texts, sort_keys=True).encode())
        return known.hexdigest()[:16]


def write(image: Image, target: pathlib.Path) -> None:
    """Write the archive to `target`. Raises `OSError`."""
    with tempfile.TemporaryDirectory(prefix="carico-layer-", dir=target.parent) as made:
        layer, whole = pathlib.Path(made) / _LAYER, pathlib.Path(made) / "image.tar"
        with tarfile.open(layer, "w") as archive:
            _write_layer(image, archive)
        with layer.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        manifest = [{"Config": "config.json", "RepoTags": [image.tag], "Layers": [_LAYER]}]
        with tarfile.open(whole, "w") as archive:
            archive.add(layer, _LAYER)
            _add_text(archive, "config.json", json.dumps(_config(image, digest)))
            _add_text(archive, "manifest.json", json.dumps(manifest))
        # Atomically: readers find the whole archive or none.
        whole.rename(target)


def _write_layer(image: Image, archive: tarfile.TarFile) -> None:
    for name, path in sorted(image.files.items()):
        entry = archive.gettarinfo(path.resolve(), name.removeprefix("/"))
        # Owned by root. Times are kept, since Python compares them with those in its bytecode.
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.type, entry.linkname = tarfile.REGTYPE, ""
        with path.open("rb") as content:
            archive.addfile(entry, content)
    for name, text in sorted(image.scripts.items()):
        _add_text(archive, name.removeprefix("/"), text, mode=0o755)
    for name, to in sorted(image.links.items()):
        entry = tarfile.TarInfo(name.removeprefix("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, to
        archive.addfile(entry)


def _add_text(archive: tarfile.TarFile, name: str, text: str, *, mode: int = 0o644) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _config(image: Image, digest: str) -> Mapping[str, object]:
    machine = platform.machine()
    return {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Env": [f"{name}={value}" for name, value in image.environ.items()], "Cmd": list(image.command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }


def shared_libraries(files: Iterable[pathlib.Path]) -> dict[str, pathlib.Path]:
    """Return the shared libraries that programs need, by path, including the loader, as listed by `ldd`.

    Raises `EnvironmentUnfit` without ldd.
    """
    wanted, found = [str(path) for path in files], {}
    for first in range(0, len(wanted), _FILES_AT_ONCE):
        try:
            output = subprocess.run(
                ["ldd", *wanted[first : first + _FILES_AT_ONCE]], capture_output=True, text=True, check=False
            ).stdout
        except OSError as error:
            raise errors.EnvironmentUnfit(f"cannot run ldd, which is part of the C library: {error}") from error
        for match in _LIBRARY.finditer(output):
            path = os.path.normpath(match[1])
            found[path] = pathlib.Path(path)
    return found

"""Commands of a wanted version: from KUBEBUILDER_ASSETS or PATH where they fit, else built and kept in the cache."""

import dataclasses
import enum
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from carico_core.runtime.process import clock as clocks
from carico_local.binaries import building, catalog, progress

_ANSWER_TIMEOUT_S = 20.0


class Origin(enum.StrEnum):
    """Where a command was taken from."""

    ASSETS = "KUBEBUILDER_ASSETS"
    PATH = "PATH"
    BUILT = "built from source"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A command that can be run."""

    name: str
    path: pathlib.Path
    version: str
    origin: Origin


def obtain(
    names: Iterable[str], *, environ: Mapping[str, str], clock: clocks.Clock, tell: progress.Tell
) -> dict[str, Found]:
    """Return the commands by name; says which were taken from where, and builds what is missing.

    The first build of the control plane takes about 6 minutes on 2 cores and 5 GB of Go's caches. Raises
    `EnvironmentUnfit` where a command is neither here nor can be built.
    """
    wanted = [catalog.tool(name) for name in names]
    found = {}
    for tool in wanted:
        installed = _installed(tool, environ, tell)
        if installed is not None:
            found[tool.name] = installed
    missing = [tool for tool in wanted if tool.name not in found]
    for module in dict.fromkeys(tool.module for tool in missing):
        paths = building.built(
            module, [tool for tool in missing if tool.module == module], environ, clock=clock, tell=tell
        )
        for name, path in paths.items():
            found[name] = Found(name=name, path=path, version=module.version, origin=Origin.BUILT)
    return found


def _installed(tool: catalog.Tool, environ: Mapping[str, str], tell: progress.Tell) -> Found | None:
    """Return the command of this machine, where its version is near enough: major and minor are pinned."""
    for origin, folders in (
        (Origin.ASSETS, environ.get("KUBEBUILDER_ASSETS", "")),
        (Origin.PATH, environ.get("PATH", os.defpath)),
    ):
        path = shutil.which(tool.name, path=folders) if folders else None
        if path is None:
            continue
        got, pinned = version(tool, path), tool.module.version
        if got is not None and got.split(".")[:2] == pinned.split(".")[:2]:
            tell(progress.Progress(text=f"{tool.name} {got}: {path} ({origin})"))
            return Found(name=tool.name, path=pathlib.Path(path), version=got, origin=origin)
        is_of = got or "of no known version"
        expected = ".".join(pinned.split(".")[:2])
        tell(progress.Progress(text=f"{tool.name}: {path} is {is_of}, not {expected}: passed over"))
    return None


def version(tool: catalog.Tool, path: str) -> str | None:
    """Return the version that a command states, as in "1.36.4"; None where it states none."""
    try:
        done = subprocess.run(
            [path, *tool.version_arguments], capture_output=True, text=True, check=False, timeout=_ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else None

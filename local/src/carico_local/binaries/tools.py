"""Commands of the wanted version: from KUBEBUILDER_ASSETS or PATH where they match, else built into the cache."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from carico_core.runtime.process import clock as clocks
from carico_local.binaries import building, cache, catalog

_ANSWER_TIMEOUT_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A command that was found or built."""

    name: str
    path: pathlib.Path


def obtain(
    names: Iterable[str], *, environ: Mapping[str, str], clock: clocks.Clock, report: cache.Report
) -> dict[str, Found]:
    """Return the commands by name; report where each comes from, and build missing ones.

    The first build of the control plane takes about 6 minutes on 2 cores and 5 GB of Go's caches. Raises
    `EnvironmentUnfit` where a command can be neither found nor built.
    """
    wanted = [catalog.tool(name) for name in dict.fromkeys(names)]
    found = {}
    for tool in wanted:
        installed = _installed(tool, environ, report)
        if installed is not None:
            found[tool.name] = installed
    missing = [tool for tool in wanted if tool.name not in found]
    for module in dict.fromkeys(tool.module for tool in missing):
        paths = building.built(
            module, [tool for tool in missing if tool.module == module], environ, clock=clock, report=report
        )
        for name, path in paths.items():
            found[name] = Found(name=name, path=path)
    return found


def _installed(tool: catalog.Tool, environ: Mapping[str, str], report: cache.Report) -> Found | None:
    """Return the command installed on this machine, where its major and minor version are the pinned ones."""
    for origin, absent in (("KUBEBUILDER_ASSETS", ""), ("PATH", os.defpath)):
        folders = environ.get(origin, absent)
        path = shutil.which(tool.name, path=folders) if folders else None
        if path is None:
            continue
        got, pinned = version(tool, path), tool.module.version
        if got is not None and got.split(".")[:2] == pinned.split(".")[:2]:
            report(cache.Progress(text=f"{tool.name} {got}: {path} ({origin})"))
            return Found(name=tool.name, path=pathlib.Path(path))
        actual = got or "of unknown version"
        expected = ".".join(pinned.split(".")[:2])
        report(cache.Progress(text=f"{tool.name}: {path} is {actual}, not {expected}: skipped"))
    return None


def version(tool: catalog.Tool, path: str) -> str | None:
    """Return the version that a command prints, as in "1.36.4"; None where it prints none."""
    try:
        done = subprocess.run(
            [path, *tool.version_arguments], capture_output=True, text=True, check=False, timeout=_ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else None

"""Removal of everything that a cluster left behind, found by its own name and never by another's."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
from collections.abc import Iterable, Iterator

from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from carico_local.cgroups import node_group

# In the environment of every process that a cluster's supervisor starts, and of those that they start: the folder of
# what is kept about the cluster.
RUN_VARIABLE = "CARICO_CLUSTER_RUN"
# The same of a node's runtime: it ends after the services, or its Pods would seem to have failed. One that has written
# no record yet, nor entered its cgroup, is found by this alone.
RUNTIME_VARIABLE = "CARICO_CLUSTER_RUNTIME"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep found: processes killed, and the cgroups that could not be removed."""

    killed: int
    remaining: tuple[str, ...]


def sweep(cluster: str, *, state_dirs: Iterable[pathlib.Path] = (), ready_files: Iterable[pathlib.Path] = ()) -> Swept:
    """Kill every process in the cluster's cgroups, and those its nodes' records in `state_dirs` name; remove all.

    `ready_files`: what its nodes said of their groups. Those that systemd gave to the one who started them are in a
    tree of their own. For use after a kill -9 of everything. Nodes of the cluster that
    still run lose their Pods: stop them first.
    """
    killed = sum(kill_recorded(directory) for directory in state_dirs)
    remaining: list[str] = []
    for layout in (layouts.read_layout(), *_announced(ready_files)):
        top = groups.Group(layout=layout, path=node_group.cluster_path(cluster))
        if top.exists():
            killed += len(top.pids())
            if not top.destroy():
                remaining += [str(directory) for directory in top.directories if directory.is_dir()]
    return Swept(killed=killed, remaining=tuple(dict.fromkeys(remaining)))


def _announced(ready_files: Iterable[pathlib.Path]) -> Iterator[layouts.Layout]:
    """Yield the trees in which nodes on v2 alone said that their groups are."""
    for file in ready_files:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(file.read_bytes())["cgroup"]
            whole, below = pathlib.PurePosixPath(said["trees"][layouts.UNIFIED]), pathlib.PurePosixPath(said["path"])
            if said["layout"] == layouts.Version.V2 and whole.parts[-len(below.parts) :] == below.parts:
                root = pathlib.Path(*whole.parts[: -len(below.parts)])
                yield layouts.Layout(version=layouts.Version.V2, trees={layouts.UNIFIED: root})


def kill_recorded(state_dir: pathlib.Path) -> int:
    """Return how many live processes were killed that a node's records name: the fallback's only trace of its Pods.

    A record counts only while its process has the start time that was recorded, so that no reused id is hit.
    """
    killed = 0
    for record in (*state_dir.glob("runtime.json"), *state_dir.glob("pods/*/*/*/started.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(record.read_bytes())
            if start_ticks(entry["pid"]) == entry["start_ticks"]:
                os.kill(entry["pid"], signal.SIGKILL)
                killed += 1
    return killed


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (field 22 of /proc/<pid>/stat), or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name may hold blanks and brackets: fields are counted from its last bracket. A zombie is no process.
    fields = text[text.rindex(")") + 1 :].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])

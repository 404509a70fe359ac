"""Removes everything that a cluster left behind, found by the cluster's name."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
from collections.abc import Iterable, Iterator

from carico_local import process_ids
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from carico_local.cgroups import node_group

# In the environment of every process that a cluster's supervisor starts, and of its children: the cluster's directory.
RUN_VARIABLE = "CARICO_CLUSTER_RUN"
# The same for a node's runtime, which must end after the services, or its Pods would seem to have failed. Before it has
# written its record and joined its cgroup, it can only be found by this variable.
RUNTIME_VARIABLE = "CARICO_CLUSTER_RUNTIME"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The result of a sweep: how many processes were killed, and the cgroups that could not be removed."""

    killed: int
    remaining: tuple[str, ...]


def sweep(cluster: str, *, state_dirs: Iterable[pathlib.Path] = (), ready_files: Iterable[pathlib.Path] = ()) -> Swept:
    """Kill all processes in the cluster's cgroups and in its nodes' records (`state_dirs`); remove the cgroups.

    `ready_files`: of its nodes, with the paths of their groups, which may be in a tree that systemd delegated to
    another session. Meant for use after a kill -9 of everything: nodes that still run lose their Pods.
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
    """Yield the v2 trees in which nodes have reported their groups."""
    for file in ready_files:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(file.read_bytes())["cgroup"]
            whole, below = pathlib.PurePosixPath(found["trees"][layouts.UNIFIED]), pathlib.PurePosixPath(found["path"])
            if found["layout"] == layouts.Version.V2 and whole.parts[-len(below.parts) :] == below.parts:
                root = pathlib.Path(*whole.parts[: -len(below.parts)])
                yield layouts.Layout(version=layouts.Version.V2, trees={layouts.UNIFIED: root})


def kill_recorded(state_dir: pathlib.Path) -> int:
    """Kill the running processes in a node's records, the fallback's only trace of its Pods; return how many."""
    killed = 0
    for record in (*state_dir.glob("runtime.json"), *state_dir.glob("pods/*/*/*/started.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(record.read_bytes())
            if process_ids.is_alive(entry):
                os.kill(entry["pid"], signal.SIGKILL)
                killed += 1
    return killed

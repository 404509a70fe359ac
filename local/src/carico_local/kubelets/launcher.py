"""`python -m carico_local.kubelets.launcher NODE.json`: starts one node in its own namespaces and waits for it.

The end of this process, for any reason, ends the node: the kernel ends `unshare` with it, the node's first process with
`unshare`, and with that one every process of the node.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from carico_local.cluster import processes
from carico_local.kubelets import network, node_cgroups, programs

# Where a node finds its network plugins: mounted there from wherever the machine has them.
PLUGINS = "/carico-cni"
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
_UNSHARED_WITHIN_S = 20.0
_LOOK_EVERY_S = 0.02


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The launcher's file about one node. Paths are absolute; `commands`: by the name that the node uses."""

    cluster: str
    name: str
    number: int
    cpus: float
    memory_bytes: int
    gateway: str
    prefix: int
    config: str
    data: str
    ready: str
    plugins: str
    commands: Mapping[str, str]
    images: Sequence[str]


def main() -> int:
    """Return the exit code: the node's, or 2 with one line where the node could not be started."""
    node = Launch(**json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
    try:
        return run(node)
    except (errors.EnvironmentUnfit, OSError) as error:
        print(f"{node.name}: {error}", file=sys.stderr, flush=True)
        return 2


def run(node: Launch) -> int:
    """Run the node to its end; return its exit code. Raises `EnvironmentUnfit` or `OSError`."""
    group = node_cgroups.node(node.cluster, node.name)
    # An earlier start of this node may have left containers, which the new containerd would not know.
    group.destroy()
    node_cgroups.make(group, cpus=node.cpus, memory_bytes=node.memory_bytes)
    process = _start(node, group)
    signal.signal(signal.SIGTERM, lambda _number, _frame: process.kill())
    signal.signal(signal.SIGINT, lambda _number, _frame: process.kill())
    try:
        _until_unshared(process)
        _step_aside(group, process.pid)
        network.plug(pathlib.Path(node.commands["ip"]), node.cluster, node.number, pid=process.pid)
        pathlib.Path(node.ready).write_text(str(process.pid), encoding="ascii")
        return process.wait()
    finally:
        process.kill()
        process.wait()
        pathlib.Path(node.ready).unlink(missing_ok=True)
        group.destroy()


def _start(node: Launch, group: groups.Group) -> "subprocess.Popen[bytes]":
    root, commands, images = _folders(node)
    reached = {"CARICO_GATEWAY": node.gateway, "CARICO_PREFIX": str(node.prefix)}
    trees = "\n".join(f"{target} {controllers}" for target, controllers in node_cgroups.trees().items())
    end_with_parent = processes.end_with_parent(signal.SIGKILL)
    joins = group.procs_files

    def prepare() -> None:
        end_with_parent()
        for file in joins:
            pathlib.Path(file).write_text(str(os.getpid()), encoding="ascii")

    script = (str(programs.HOST_ENTRY), root, node.config, node.data, commands, node.plugins, images)
    return subprocess.Popen(
        [node.commands["unshare"], *_NAMESPACES, "--fork", "--kill-child=SIGKILL", "/bin/sh", *script],
        stdin=subprocess.DEVNULL, env={**settings.environment(), **reached, "CARICO_TREES": trees}, preexec_fn=prepare,
    )  # fmt: skip


def _folders(node: Launch) -> tuple[str, str, str]:
    """Recreate the node's empty root and the directories of links to its programs and images; return their paths."""
    data = pathlib.Path(node.data)
    shutil.rmtree(data, ignore_errors=True)
    for name in ("root", "programs", "images"):
        (data / name).mkdir(parents=True)
    for name, path in node.commands.items():
        (data / "programs" / name).symlink_to(path)
    for image in node.images:
        (data / "images" / pathlib.Path(image).name).symlink_to(image)
    return str(data / "root"), str(data / "programs"), str(data / "images")


def _until_unshared(process: "subprocess.Popen[bytes]") -> None:
    """Wait until the process has its own network namespace. Raises `EnvironmentUnfit` where it gets none."""
    own = os.readlink("/proc/self/ns/net")
    clock = clocks.SystemClock()
    deadline_s = clock.monotonic_s() + _UNSHARED_WITHIN_S
    while clock.monotonic_s() < deadline_s and process.poll() is None:
        if os.readlink(f"/proc/{process.pid}/ns/net") != own:
            return
        time.sleep(_LOOK_EVERY_S)
    raise errors.EnvironmentUnfit("cannot create namespaces here: see the node's log, or use --nodes process")


def _step_aside(group: groups.Group, pid: int) -> None:
    """On v2, move the first process to another group: a group with processes cannot enable controllers below it."""
    if group.layout.version is not layouts.Version.V2:
        return
    outer_path = pathlib.PurePosixPath(f"{group.path}.runtime")
    outer = groups.Group(layout=group.layout, path=str(outer_path))
    outer.create()
    for file in outer.procs_files:
        pathlib.Path(file).write_text(str(pid), encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())

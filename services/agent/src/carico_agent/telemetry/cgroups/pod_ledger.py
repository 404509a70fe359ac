"""What single Pods have used: CPU time, waiting for a CPU, and working set, from the Pod's own cgroup.

Files are opened for each read: most Pods are read every few seconds, and many live for seconds only.
"""

import contextlib
import math
import os
import pathlib
from typing import NamedTuple

from carico_agent import ports
from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy, pod_throttling
from carico_agent.telemetry.proc import kernel_file, pressure
from carico_core.runtime.process import clock as clocks

# All Pods' folders are listed at most once in this time; a folder next to a known one is found without it.
SCAN_S = 1.0
# Of a Pod: more are rare, and each costs as much to read as a Pod.
CONTAINERS_MOST = 16
# memory.stat has the most text, a page of keys.
_READ_BYTES = 8192


class _Shape(NamedTuple):
    """How the folder of a Pod is named: `parent / (before + uid + after)`, with or without dashes in the UID."""

    parent: str
    before: str
    after: str
    has_dashes: bool


class CgroupLedger:
    """Implements `carico_agent.ports.PodLedger` for the Pods below a node's cgroup."""

    def __init__(self, group: hierarchy.Group, *, clock: clocks.Clock) -> None:
        """Raise `Absent` if CPU time or memory of its Pods cannot be read."""
        self._clock = clock
        if group.layout is hierarchy.Layout.V2 and group.unified is not None:
            self._cpu, self._memory = group.unified, group.unified
            self._names = ("cpu.stat", "memory.current", b"inactive_file")
        elif "cpuacct" in group.v1 and "memory" in group.v1:
            self._cpu, self._memory = group.v1["cpuacct"], group.v1["memory"]
            self._names = ("cpuacct.usage", "memory.usage_in_bytes", b"total_inactive_file")
        else:
            raise port.Absent("CPU time and memory of Pods", "no cpuacct or memory controller")
        # Pressure is in the unified tree only, limits are in that of the CPU controller.
        self._pressure, self._limits = group.unified, group.cpu
        # UID -> throttled time, and when it was read.
        self._throttled: dict[str, tuple[float, float]] = {}
        # UID -> folder, below the node's.
        self._folders: dict[str, str] = {}
        self._shapes: set[_Shape] = set()
        self._scanned_s: float | None = None

    def read(self, uid: str, *, has_several: bool = False) -> ports.PodAmounts | None:
        """Return what the Pod has used; None if it has no cgroup (yet, or any more).

        `has_several`: also what each of its containers has used.
        """
        folder = self._folder(uid)
        if folder is None:
            return None
        try:
            whole = self._amounts(folder)
            return ports.PodAmounts(
                *whole, waiting_s=self._waiting_s(uid, folder),
                containers=self._containers(folder) if has_several else {},
            )  # fmt: skip
        except (OSError, port.Broken):
            # The Pod has just ended, or a controller is off. If its folder has moved, it is looked for again.
            self._folders.pop(uid, None)
            return None

    def forget(self, uid: str) -> None:
        """Drop what is kept of a Pod that has ended."""
        self._folders.pop(uid, None)
        self._throttled.pop(uid, None)

    def _amounts(self, folder: str) -> ports.ContainerAmounts:
        cpu_name, memory_name, inactive_key = self._names
        # Plain texts: paths as objects would take a quarter of the time.
        memory = f"{self._memory}/{folder}"
        cpu = _content(f"{self._cpu}/{folder}/{cpu_name}")
        used = kernel_file.whole(_content(f"{memory}/{memory_name}"), what=memory_name)
        inactive = kernel_file.keyed(_content(f"{memory}/memory.stat"), inactive_key, what="memory.stat")
        return ports.ContainerAmounts(cpu_s=_cpu_s(cpu), memory_bytes=float(max(used - inactive, 0)))

    def _containers(self, folder: str) -> dict[str, ports.ContainerAmounts]:
        found: dict[str, ports.ContainerAmounts] = {}
        for each in hierarchy.folders(self._cpu / folder)[:CONTAINERS_MOST]:
            # One that ends or begins at this moment.
            with contextlib.suppress(OSError, port.Broken):
                found[each.name] = self._amounts(f"{folder}/{each.name}")
        return found

    def _waiting_s(self, uid: str, folder: str) -> float | None:
        """Return the waiting time in which no limit held the Pod back; None without pressure files."""
        if self._pressure is None:
            return None
        try:
            some_us = pressure.parse_some(_content(f"{self._pressure}/{folder}/cpu.pressure"))
        except (OSError, port.Broken):
            return None
        if self._limits is None:
            return some_us * 1e-6
        now_s = self._clock.monotonic_s()
        throttled_s, looked_s = self._throttled.get(uid, (0.0, -math.inf))
        # To look for limits takes longer than all the rest, and most Pods have none.
        if throttled_s > 0.0 or now_s - looked_s >= pod_throttling.RESCAN_S:
            throttled_s = pod_throttling.throttled_s(self._limits / folder)
            self._throttled[uid] = throttled_s, now_s
        return some_us * 1e-6 - throttled_s

    def _folder(self, uid: str) -> str | None:
        found = self._folders.get(uid) or self._next_to_others(uid)
        if found is None and self._may_scan():
            self._scan()
            found = self._folders.get(uid)
        if found is not None:
            self._folders[uid] = found
        return found

    def _next_to_others(self, uid: str) -> str | None:
        for shape in self._shapes:
            name = uid if shape.has_dashes else uid.replace("-", "_")
            folder = os.path.join(shape.parent, f"{shape.before}{name}{shape.after}")
            if (self._cpu / folder).is_dir():
                return folder
        return None

    def _may_scan(self) -> bool:
        now_s = self._clock.monotonic_s()
        if self._scanned_s is not None and now_s - self._scanned_s < SCAN_S:
            return False
        self._scanned_s = now_s
        return True

    def _scan(self) -> None:
        self._folders = {}
        try:
            for folder in hierarchy.pods(self._cpu):
                uid = hierarchy.pod_uid(folder.name)
                if uid is not None:
                    self._folders[uid] = str(folder.relative_to(self._cpu))
                    self._shapes.add(_shape(folder.relative_to(self._cpu), uid))
        except OSError:
            return  # too many open files: those found so far


def _shape(folder: pathlib.Path, uid: str) -> _Shape:
    has_dashes = uid in folder.name
    before, _, after = folder.name.partition(uid if has_dashes else uid.replace("-", "_"))
    return _Shape(parent=str(folder.parent), before=before, after=after, has_dashes=has_dashes)


def _cpu_s(data: bytes) -> float:
    if data.startswith(b"usage_usec "):
        return kernel_file.keyed(data, b"usage_usec", what="cpu.stat") * 1e-6
    return kernel_file.whole(data, what="cpuacct.usage") * 1e-9


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(file, _READ_BYTES, 0)
    finally:
        os.close(file)

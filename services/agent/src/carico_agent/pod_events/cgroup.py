"""Pod events from the Pods' cgroups: for any runtime, without a socket or rights at the API.

A Pod is created when its folder appears, runs while its cgroup contains a process (`populated` in cgroup.events), and
has ended when it no longer does. With containerd, the sandbox's process stays for seconds: the cgroup of a Pod's first
container is the sandbox's, and is ignored. The kernel reports changes through inotify; if only v1 trees are mounted, or
no inotify watches are left, folders are scanned ten times a second.

Limitation: a cgroup does not show the owner of its Pod, so Pods of DaemonSets and static Pods count as workload. Use
the `kubernetes` adapter if they come and go; permanent ones add a constant that the baseline absorbs.
"""

import asyncio
import contextlib
import functools
import pathlib
import re
from collections.abc import Callable

from carico_agent import settings
from carico_agent.pod_events import adapter, inotify
from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.telemetry.proc import kernel_file
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

# As often as telemetry.
POLL_S = 0.1
# With inotify, whose overflows are handled at once, scans are a safety net; each takes milliseconds. If a watch is
# refused, scans are the only way to notice those Pods.
FULL_SCAN_S = 30.0
UNWATCHED_SCAN_S = 1.0
# A container's cgroup: named by its id (cgroupfs driver), or a scope with it (systemd driver).
_CONTAINERD = re.compile(r"[0-9a-f]{64}|cri-containerd-[0-9a-f]{64}\.scope")


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> "CgroupPods":
    """Return the adapter for these settings, for Pods below the node's cgroup, or below the host's roots."""
    discover = functools.partial(hierarchy.discover, pathlib.Path(chosen.proc) / "mounts", below=chosen.cgroup_root)
    return CgroupPods(chosen.cgroup, clock=clock, discover=discover)


class CgroupPods(adapter.Adapter):
    """Implements `carico_agent.ports.PodEvents`."""

    def __init__(
        self,
        cgroup: str,
        *,
        clock: clocks.Clock,
        discover: Callable[[], hierarchy.Tree] = hierarchy.discover,
    ) -> None:
        super().__init__("cgroup", clock=clock)
        self._cgroup = cgroup
        self._discover = discover
        self._limited = logs.RateLimited(self._log, clock=clock)
        self._notify: inotify.Inotify | None = None
        self._watches: inotify.Watches | None = None
        # The paths to watch, as found by the current scan.
        self._wanted: set[pathlib.Path] = set()
        self._root = pathlib.Path()
        # Whether a watch was refused in the last scan, or the root is gone.
        self._unwatched = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Keep `current` up to date until cancelled."""
        self._root = await self._find_root()
        self._notify = self._open_notify(self._root)
        loop = asyncio.get_running_loop()
        try:
            if self._notify is not None:
                self._watches = inotify.Watches(self._notify)
                loop.add_reader(self._notify.fileno(), self._on_readable)
            while True:
                self._try_to_scan()
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._wake.wait()
        finally:
            if self._notify is not None:
                loop.remove_reader(self._notify.fileno())
                self._notify.close()
                self._notify = self._watches = None

    def _pause_s(self) -> float:
        if self._notify is None:
            return POLL_S
        return UNWATCHED_SCAN_S if self._unwatched else FULL_SCAN_S

    async def _find_root(self) -> pathlib.Path:
        """Wait for the folder that contains the Pods' folders, and return it: a node may start after its agent."""
        is_logged = False
        while True:
            try:
                group = self._discover().group(self._cgroup)
                return group.unified or next(iter(group.v1.values()))
            except port.Absent as error:
                if not is_logged:
                    self._log.info("waiting for the node's cgroup", why=str(error))
                    is_logged = True
                await asyncio.sleep(POLL_S)

    def _open_notify(self, root: pathlib.Path) -> inotify.Inotify | None:
        if not (root / "cgroup.events").exists() and not (root / "cgroup.controllers").exists():
            self._log.info("no unified tree: cgroups are scanned ten times a second")
            return None
        try:
            return inotify.Inotify()
        except OSError as error:
            self._log.warning("no inotify: cgroups are scanned ten times a second", why=str(error))
            return None

    def _on_readable(self) -> None:
        if self._notify is None or self._watches is None:
            return
        for watch, mask, name in self._notify.read():
            path = self._watches.path(watch)
            if mask & inotify.IN_Q_OVERFLOW:
                self._log.warning("events were lost: all cgroups are scanned")
                self._try_to_scan()
            elif mask & inotify.IN_IGNORED:
                if self._watches.ended(watch) == self._root:
                    # The node's cgroup was removed; it may be created again.
                    self._wake.set()
            elif path is not None:
                try:
                    self._on_event(path, mask, name)
                except OSError:
                    # A scan logs the reason, and is repeated until it succeeds.
                    self._wake.set()

    def _on_event(self, path: pathlib.Path, mask: int, name: str) -> None:
        if mask & inotify.IN_DELETE and self._watches is not None:
            self._watches.drop_below(path / name)
        pod = _pod_of(path)
        if path == self._root.parent:
            # The node's cgroup was removed or created: the kernel reports this for the parent folder only.
            if name == self._root.name:
                self._wake.set()
        elif pod is not None:
            # An event of the Pod: a container's cgroup was created or removed, or `populated` changed.
            self._on_pod(*pod)
        elif mask & inotify.IN_CREATE:
            self._on_folder(path / name)
        elif mask & inotify.IN_DELETE:
            self._on_removed(name)

    def _try_to_scan(self) -> None:
        """Scan, or keep the Pods if files cannot be opened: that does not mean that a Pod has ended."""
        try:
            self._scan(self._root)
        except OSError as error:
            self._unwatched = True
            self._limited.warning("scan", "cgroups cannot be scanned: the last known Pods are used", why=str(error))

    def _scan(self, root: pathlib.Path) -> None:
        """Scan every Pod below `root`, and watch what is not watched yet."""
        self._unwatched = False
        self._wanted = set()
        self._watch(root.parent, inotify.IN_CREATE | inotify.IN_DELETE)
        self._watch(root, inotify.IN_CREATE | inotify.IN_DELETE)
        found: set[str] = set()
        for folder in self._folders(root, hierarchy.POD_DEPTH):
            uid = hierarchy.pod_uid(folder.name)
            if uid is not None:
                found.add(uid)
                self._on_pod(uid, folder)
        for uid in self._states.known() - found:
            self._states.removed(uid, self._clock.monotonic_s())
        if self._watches is not None:
            self._watches.keep(self._wanted)

    def _folders(self, root: pathlib.Path, depth: int) -> list[pathlib.Path]:
        """Return the Pods' folders; watch the folders in between."""
        found = []
        for child in hierarchy.folders(root):
            if hierarchy.pod_uid(child.name) is not None:
                found.append(child)
            elif depth > 1:
                self._watch(child, inotify.IN_CREATE | inotify.IN_DELETE)
                found += self._folders(child, depth - 1)
        return found

    def _on_folder(self, folder: pathlib.Path) -> None:
        uid = hierarchy.pod_uid(folder.name)
        if uid is not None:
            self._on_pod(uid, folder)
            return
        if not folder.is_dir():
            return
        self._watch(folder, inotify.IN_CREATE | inotify.IN_DELETE)
        for child in self._folders(folder, hierarchy.POD_DEPTH - 1):
            self._on_folder(child)

    def _on_pod(self, uid: str, folder: pathlib.Path) -> None:
        if folder.is_dir():
            self._states.created(uid, self._clock.monotonic_s())
        # Watch first, then read, so that no change is missed.
        self._watch(folder, inotify.IN_CREATE | inotify.IN_DELETE)
        self._watch(folder / "cgroup.events", inotify.IN_MODIFY)
        containers = hierarchy.folders(folder)
        sandbox = _sandbox(containers)
        for container in containers if sandbox is not None else ():
            self._watch(container / "cgroup.events", inotify.IN_MODIFY)
        workload = [folder] if sandbox is None else [found for found in containers if found != sandbox]
        self._on_populated(uid, [_populated(found) for found in workload])

    def _on_populated(self, uid: str, populated: list[bool | None]) -> None:
        if any(populated):
            self._states.started(uid, self._clock.monotonic_s())
        elif populated != [None]:
            self._states.ended(uid, self._clock.monotonic_s())

    def _on_removed(self, name: str) -> None:
        uid = hierarchy.pod_uid(name)
        if uid is not None:
            self._states.removed(uid, self._clock.monotonic_s())

    def _watch(self, path: pathlib.Path, mask: int) -> None:
        if self._watches is None:
            return
        self._wanted.add(path)
        try:
            self._watches.add(path, mask)
        except FileNotFoundError:
            # It disappeared, which matters only for the folder in which Pods appear.
            self._unwatched = self._unwatched or path == self._root
        except OSError as error:
            # No watches are left (fs.inotify.max_user_watches): scans still find everything.
            self._unwatched = True
            self._limited.warning("watch", "cgroups are not watched", path=str(path), why=str(error))


def _pod_of(path: pathlib.Path) -> tuple[str, pathlib.Path] | None:
    """Return UID and folder of the Pod that a watched path belongs to, if any."""
    for folder in (path, path.parent, path.parent.parent):
        uid = hierarchy.pod_uid(folder.name)
        if uid is not None:
            return uid, folder
    return None


def _sandbox(containers: list[pathlib.Path]) -> pathlib.Path | None:
    """Return the cgroup of a Pod's sandbox; None if the runtime has none.

    containerd names cgroups by ids, and creates a Pod's sandbox before its containers.
    """
    oldest: tuple[int, pathlib.Path] | None = None
    for container in containers:
        if _CONTAINERD.fullmatch(container.name):
            with contextlib.suppress(OSError):
                found = (_age_order(container), container)
                oldest = found if oldest is None else min(oldest, found)
    return None if oldest is None else oldest[1]


def _age_order(group: pathlib.Path) -> int:
    """Return a number that is smaller for the older of two cgroups: kernfs numbers inodes in order."""
    return group.stat().st_ino


def _populated(folder: pathlib.Path) -> bool | None:
    """Return whether the cgroup or one below it contains a process; None if it is gone.

    Raises `OSError` as `hierarchy.folders` does.
    """
    try:
        events = (folder / "cgroup.events").read_text(encoding="ascii")
    except FileNotFoundError:
        return _holds_process(folder)
    except OSError as error:
        if kernel_file.is_exhausted(error):
            raise
        return None
    return "populated 1" in events


def _holds_process(folder: pathlib.Path) -> bool | None:
    """Return the same for v1 trees, from cgroup.procs."""
    try:
        if (folder / "cgroup.procs").read_bytes().strip():
            return True
        return any(_holds_process(child) for child in hierarchy.folders(folder))
    except OSError as error:
        if kernel_file.is_exhausted(error):
            raise
        return None

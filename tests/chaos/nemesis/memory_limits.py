"""The memory limits of the manifests, kept by the kernel: a cgroup for each service, where cgroups can be made."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from carico_local.cgroups import node_group

# A limit that is too low, at least and at most: a service of ours needs more to be ready, at some moment of its start.
SHORT_BYTES = (16 << 20, 56 << 20)
# The process joins the group before it becomes the service.
_ENTER = 'echo 0 > "$1" && shift && exec "$@"'


class MemoryLimits:
    """The groups of one cluster. `limits`: bytes by the beginning of a service's name; others have none."""

    def __init__(self, cluster: str, limits: Mapping[str, int]) -> None:
        self._limits = limits
        found = _memory_alone(layouts.read_layout())
        path = f"{node_group.cluster_path(cluster)}/services"
        self._top = groups.Group(layout=found, path=path) if found.trees else None
        # Kills by the kernel that were to be, by service.
        self._meant: dict[str, int] = {}

    def wrapped(self, service: str, argv: Sequence[str]) -> Sequence[str]:
        """Return the command line with which a service runs within its limit."""
        limit = self._limit(service)
        if self._top is None or limit is None:
            return argv
        group = self._group(service)
        try:
            if not group.exists():
                group.create()
                group.set_memory(limit)
        except OSError:
            self._top = None
            return argv
        return ("/bin/sh", "-c", _ENTER, "sh", *group.procs_files, *argv)

    @contextlib.contextmanager
    def short(self, service: str, size: float) -> Iterator[None]:
        """Give a service too little memory; `size`, in [0, 1): how little. It must not run when this begins."""
        limit = self._limit(service)
        if self._top is None or limit is None:
            yield
            return
        group = self._group(service)
        before = group.oom_kills()
        with contextlib.suppress(OSError):
            # What it leaves in the page cache may not be given back at once.
            group.set_memory(round(SHORT_BYTES[0] + size * (SHORT_BYTES[1] - SHORT_BYTES[0])))
        try:
            yield
        finally:
            group.set_memory(limit)
            self._meant[service] = self._meant.get(service, 0) + group.oom_kills() - before

    def killed(self, services: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return how often the kernel killed each service at the limit of its manifest, and all when it was short."""
        if self._top is None:
            return {}, 0
        every = {name: self._group(name).oom_kills() for name in services if self._limit(name) is not None}
        real = {name: count - self._meant.get(name, 0) for name, count in every.items()}
        return {name: count for name, count in real.items() if count}, sum(self._meant.values())

    def _limit(self, service: str) -> int | None:
        return next((limit for kind, limit in self._limits.items() if service.startswith(kind)), None)

    def _group(self, service: str) -> groups.Group:
        assert self._top is not None
        return self._top.child(service.replace("/", "-"))


def _memory_alone(found: layouts.Layout) -> layouts.Layout:
    """Return the one tree that limits memory: a service joins one group."""
    tree = "memory" if "memory" in found.trees else layouts.UNIFIED
    trees = {tree: found.trees[tree]} if tree in found.trees else {}
    return layouts.Layout(version=found.version, trees=trees)

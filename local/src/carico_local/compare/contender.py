"""Which schedulers are compared: CARICO, which gets no requests, and kube-scheduler with those a user would give."""

import dataclasses
import re

from carico_core.domain import cluster, errors

KUBE_SCHEDULER = "default-scheduler"
CARICO = "carico"
# The requests of the published tables (design, section 11), in thousandths of an emulated core.
PUBLISHED_MILLICORES = (100, 200, 500, 1000)
_PUBLISHED = tuple(f"kube-{millicores}m" for millicores in PUBLISHED_MILLICORES)
# Two Pods a core is what full use of a core takes (design, section 11).
DEFAULT = (CARICO, *_PUBLISHED, *(f"{name}-bare" for name in _PUBLISHED), "constant-8")
_PATTERN = re.compile(r"kube-(?P<request>[1-9]\d{0,5})m(?P<bare>-bare)?|constant-(?P<pods>[1-9]\d{0,2})|carico")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheduler and what its Pods state. `agents`: False where the agents stand still, to show what they cost."""

    name: str
    scheduler_name: str
    request_millicores: int | None
    agents: bool = True

    @property
    def is_kube(self) -> bool:
        """True for kube-scheduler with requests of a user, next to running agents."""
        return self.scheduler_name == KUBE_SCHEDULER and self.agents and self.name.startswith("kube-")


def parse(name: str, *, cores: int) -> Contender:
    """Return the contender of a name, on nodes of so many cores. Raises `SettingsError`.

    `kube-500m`: kube-scheduler, each Pod asks for half a core. `kube-500m-bare`: the same without agents.
    `constant-8`: eight Pods a node, by requests that fill it with eight.

    >>> parse("constant-8", cores=4).request_millicores
    500
    """
    found = _PATTERN.fullmatch(name)
    if found is None:
        raise errors.SettingsError(
            f"--contender: got {name!r}, expected carico, kube-500m, kube-500m-bare (without agents) or constant-8"
        )
    if name == CARICO:
        return Contender(name=name, scheduler_name=cluster.SCHEDULER_NAME, request_millicores=None)
    request = int(found["request"]) if found["request"] else cores * 1000 // int(found["pods"])
    return Contender(
        name=name, scheduler_name=KUBE_SCHEDULER, request_millicores=request, agents=found["bare"] is None
    )  # fmt: skip

"""The schedulers that are compared: CARICO, as a rule without requests, and kube-scheduler with a user's."""

import dataclasses
import re

from carico_core.domain import errors, names

KUBE_SCHEDULER = "default-scheduler"
CARICO = "carico"
# The requests in the published tables, in thousandths of an emulated core.
PUBLISHED_MILLICORES = (100, 200, 500, 1000)
_PUBLISHED = tuple(f"kube-{millicores}m" for millicores in PUBLISHED_MILLICORES)
# constant-8: two Pods per core, enough to use each core fully.
DEFAULT = (CARICO, *_PUBLISHED, *(f"{name}-bare" for name in _PUBLISHED), "constant-8")
_PATTERN = re.compile(
    r"kube-(?P<request>[1-9]\d{0,5})m(?P<bare>-bare)?|constant-(?P<pods>[1-9]\d{0,2})|carico(-(?P<own>[1-9]\d{0,5})m)?"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheduler and the requests of its Pods. `agents`: False where the agents are stopped, to show their cost."""

    name: str
    scheduler_name: str
    request_millicores: int | None
    agents: bool = True

    @property
    def is_kube(self) -> bool:
        """True for kube-scheduler with a user's requests while the agents run."""
        return self.scheduler_name == KUBE_SCHEDULER and self.agents and self.name.startswith("kube-")


def defaults(*, cores: float) -> list[str]:
    """Return the names that are compared unless others are given: those whose request a node with `cores` has."""
    found = ((name, _PATTERN.fullmatch(name)) for name in DEFAULT)
    return [name for name, match in found if match is not None and int(match["request"] or 0) <= 1000.0 * cores]


def parse(name: str, *, cores: float) -> Contender:
    """Return the contender with a name, on nodes that offer `cores` cores. Raises `SettingsError`.

    `kube-500m`: kube-scheduler, each Pod requests half a core. `kube-500m-bare`: the same without agents.
    `carico-1091m`: CARICO, each Pod with a request, as learnt requests at admission.
    `constant-8`: eight Pods per node, by requests with which exactly eight fit.

    >>> parse("constant-8", cores=4).request_millicores
    500
    """
    found = _PATTERN.fullmatch(name)
    if found is None:
        raise errors.SettingsError(
            f"--contender: got {name!r}, expected carico, kube-500m, kube-500m-bare (without agents), constant-8 or "
            f"carico-1091m (with requests){_near_miss(name)}"
        )
    most = round(cores * 1000)
    asked = int(found["request"] or found["own"] or 0)
    if asked > most:
        raise errors.SettingsError(
            f"--contender: got {name!r}, expected a request of at most {most}m: a node has {cores:g} cores for Pods"
        )
    if name.startswith(CARICO):
        own = asked or None
        return Contender(name=name, scheduler_name=names.SCHEDULER_NAME, request_millicores=own)
    request = asked or most // int(found["pods"])
    return Contender(
        name=name, scheduler_name=KUBE_SCHEDULER, request_millicores=request, agents=found["bare"] is None
    )  # fmt: skip


def _near_miss(name: str) -> str:
    """Return which name is probably meant; empty where none is near.

    >>> _near_miss("kube-100"), _near_miss("nomad")
    (': did you mean kube-100m?', '')
    """
    number = re.search(r"[1-9]\d*", name)
    of = "500" if number is None else number[0]
    known = (CARICO, f"carico-{of}m", f"kube-{of}m", f"kube-{of}m-bare", f"constant-{of}")
    near = names.nearest(name, known, most=1)
    return f": did you mean {near[0]}?" if near else ""

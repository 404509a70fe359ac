"""The user that a container runs as. A node of root runs its Pods as an unprivileged user.

Otherwise any Pod could read the cluster's tokens, kubeconfigs and state, which belong to root. A node of an ordinary
user runs its Pods as that user, and so does one whose root lacks the capabilities to change users.
"""

import dataclasses
import grp
import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from typing import Protocol

# The user `nonroot` of distroless images: below the 16-bit limit of old file systems, and not `nobody` (65534), which
# owns files of others.
UNPRIVILEGED = 65_532
# As kube-apiserver validates both (IsValidUserID).
_MOST = 2**31 - 1
# Often stated in manifests, as the user without rights.
_NOBODY = 65_534
# Groups of the system are below (GID_MIN of login.defs): members of `docker`, for example, can become root.
_FIRST_ORDINARY = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """The ids of a container's processes; they have no supplementary groups."""

    uid: int
    gid: int


class RunsAs(Protocol):
    """What is needed from a container's spec: its securityContext, or else its Pod's."""

    @property
    def name(self) -> str: ...

    @property
    def run_as_user(self) -> int | None: ...

    @property
    def run_as_group(self) -> int | None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsers:
    """The users of a node's containers. `default` None: all run as the node's own user."""

    default: Ids | None
    allow_root: bool = False

    def of(self, container: RunsAs) -> Ids | None:
        """Return the user of a container; None: the node's own. A group 0 is never used."""
        if self.default is None or container.run_as_user == 0:
            return None
        uid = self.default.uid if container.run_as_user is None else container.run_as_user
        return Ids(uid=uid, gid=container.run_as_group or self.default.gid)

    def refusals(self, containers: Sequence[RunsAs]) -> Iterator[str]:
        """Yield a clause for each id that a container may not have."""
        if self.default is None:
            return
        for container in containers:
            for field, value in (("runAsUser", container.run_as_user), ("runAsGroup", container.run_as_group)):
                # -1 would mean "unchanged" to the kernel: root.
                if value is not None and not 0 <= value <= _MOST:
                    yield f"container {container.name!r} has {field} {value}, expected 0 to {_MOST}"
            if self.allow_root:
                continue
            for clause in _of_machine(container):
                yield f"container {container.name!r} has {clause} (`carico up --allow-root` permits it)"


def _of_machine(container: RunsAs) -> Iterator[str]:
    """Yield a clause for each id that has rights on this machine: root, a person, the user or group of a service."""
    user, group = container.run_as_user, container.run_as_group or 0
    if user == 0:
        yield "runAsUser 0"
    elif user is not None and user != _NOBODY and _has_account(user):
        yield f"runAsUser {user}, an account of this machine"
    if 0 < group < _FIRST_ORDINARY:
        yield f"runAsGroup {group}, a group of the system"
    elif group and group != _NOBODY and _has_group(group):
        yield f"runAsGroup {group}, a group of this machine"


def _has_account(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        return False


def _has_group(gid: int) -> bool:
    try:
        return bool(grp.getgrgid(gid))
    except (KeyError, OverflowError):
        return False


def of_node(*, allow_root: bool) -> ContainerUsers:
    """Return the users of a node that runs as the present user."""
    user = Ids(uid=UNPRIVILEGED, gid=UNPRIVILEGED)
    can_change = os.geteuid() == 0 and _can_become(user)
    return ContainerUsers(default=user if can_change else None, allow_root=allow_root)


def become(user: Ids) -> None:
    """Change this process to a user, for good. Raises OSError."""
    os.setgroups([])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


def _can_become(user: Ids) -> bool:
    """Return False for a root without the capabilities, or whose user namespace lacks the ids."""
    try:
        done = subprocess.run(
            ("/bin/sh", "-c", ":"), user=user.uid, group=user.gid, extra_groups=(), check=False, cwd="/",
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0

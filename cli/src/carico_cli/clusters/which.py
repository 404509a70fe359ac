"""Which cluster a command means: one rule for all of them.

1. The flags: `--name` for a cluster of this machine; `--nats-url`, `--kubeconfig` and `--context` for any other.
2. The environment, as `eval "$(carico env)"` and `carico use NAME` set it: CARICO_CLUSTER names a cluster of this
   machine, and NATS_URL and KUBECONFIG must then be that cluster's; NATS_URL alone is an address, and KUBECONFIG must
   then not be that of another cluster of this machine. KUBECONFIG alone names no bus, so that only `carico doctor` uses
   it.
3. The only running cluster of this machine; if none runs and the command does not need it to, the only one there is.

Anything else is refused in one line that names the clusters of this machine. `carico list` marks the one that is meant.

`carico use` starts a shell with that environment. It remembers no choice for other shells (ADR 58).
"""

import dataclasses
import enum
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from carico_cli.live import addresses
from carico_cli.shell import settings as contexts
from carico_core.domain import errors
from carico_core.runtime.kube import cluster_access as kube
from carico_local.cluster import folders, state

CLUSTER, NATS_URL, KUBECONFIG = "CARICO_CLUSTER", "NATS_URL", "KUBECONFIG"
F = TypeVar("F", bound=Callable[..., Any])


class Need(enum.Enum):
    """What a command needs of a cluster of this machine."""

    RUNNING = "running"
    # Its state, even if it ended without `carico down`.
    STATE = "state"
    # Its logs, even if nothing else is left.
    LOGS = "logs"
    # Only its Kubernetes API: before an install there is no bus.
    API = "api"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags that name a cluster."""

    name: str | None = None
    nats_url: str | None = None
    kubeconfig: str | None = None
    kube_context: str | None = None

    @property
    def kube(self) -> kube.KubeSettings:
        """How to reach the Kubernetes API."""
        return kube.KubeSettings(kubeconfig=self.kubeconfig or "", context=self.kube_context or "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The cluster that a command means: one of this machine, one elsewhere, or (`Need.API`) one without a bus."""

    home: pathlib.Path
    name: str | None = None
    elsewhere: addresses.Address | None = None
    api: kube.KubeSettings | None = None
    # The flag or variable that names it; empty: it is the only one.
    by: str = ""

    def where(self) -> addresses.Where:
        """Return a function that finds its address."""
        at = self.elsewhere
        if at is not None:
            return lambda: at
        assert self.name is not None
        return addresses.local(self.home, self.name)

    def local_name(self, instead: str) -> str:
        """Return its name, for a command that works only with clusters of this machine.

        Raises `SettingsError` for a cluster elsewhere; `instead` says what to do then.
        """
        if self.name is None:
            assert self.elsewhere is not None
            others = listed(cluster_names(self.home, Need.STATE))
            raise errors.SettingsError(
                f"{self.by} names the cluster at {self.elsewhere.url}, which is not on this machine ({others}): "
                f"{instead}, or give --name"
            )
        return self.name


def name_flag(function: F) -> F:
    """Add --name, for commands that work with clusters of this machine."""
    return click.option("--name", help=f"Cluster of this machine (default: ${CLUSTER}, else the only one running).")(
        function
    )


def flags(function: F) -> F:
    """Add --name, --nats-url, --kubeconfig and --context."""
    for option in (
        click.option("--context", "kube_context", help="Context of the kubeconfig."),
        click.option(
            "--kubeconfig",
            help="Kubeconfig of a cluster elsewhere (default: $KUBECONFIG, else ~/.kube/config).",
        ),
        click.option("--nats-url", help="NATS address of a cluster elsewhere (default: $NATS_URL)."),
    ):
        function = option(function)
    return name_flag(function)


def meant(context: contexts.Context, given: Flags, *, need: Need = Need.RUNNING) -> Meant:
    """Return the cluster that a command means, by the rule above. Raises `SettingsError`."""
    by_flags = _by_flags(context, given, need)
    return by_flags or _by_environment(context, given, need) or _by_presence(context, given, need)


def cluster_names(home: pathlib.Path, need: Need) -> list[str]:
    """Return the clusters of this machine that a command with that need could mean."""
    if need in (Need.RUNNING, Need.API):
        return [name for name in folders.cluster_names(home) if folders.is_running(folders.Paths(home / name))]
    return folders.cluster_names(home) if need is Need.STATE else folders.logged_names(home)


def _by_flags(context: contexts.Context, given: Flags, need: Need) -> Meant | None:
    others = (("--nats-url", given.nats_url), ("--kubeconfig", given.kubeconfig), ("--context", given.kube_context))
    # As of a shell's variable that is not set: if the flag were ignored, another cluster would be meant.
    if empty := [flag for flag, value in (("--name", given.name), *others) if value == ""]:
        raise errors.SettingsError(f"{empty[0]}: got an empty value; give what names the cluster, or leave it out")
    elsewhere = [flag for flag, value in others if value]
    if given.name is not None:
        if elsewhere:
            raise errors.SettingsError(f"--name and {elsewhere[0]}: got both, expected one of them")
        return Meant(home=context.home, name=given.name, by="--name")
    if not elsewhere:
        return None
    url, by = given.nats_url, "--nats-url"
    if url is None:
        url, by = context.environ.get(NATS_URL), NATS_URL
    if not url and need is Need.API:
        return Meant(home=context.home, api=given.kube, by=elsewhere[0])
    if not url:
        raise errors.SettingsError(f"{elsewhere[0]}: the cluster's NATS address is missing: also give --nats-url")
    is_by_flag = given.nats_url is not None
    at = addresses.remote(url, given.kube, context.environ, given_by=by, is_by_flag=is_by_flag)
    return Meant(home=context.home, elsewhere=at, by=by)


def _by_environment(context: contexts.Context, given: Flags, need: Need) -> Meant | None:
    name, url, kubeconfig = (context.environ.get(variable) for variable in (CLUSTER, NATS_URL, KUBECONFIG))
    if name:
        if name not in cluster_names(context.home, Need.STATE) + cluster_names(context.home, Need.LOGS):
            raise errors.SettingsError(
                f"environment: {CLUSTER} is {name!r}, which is not a cluster of this machine "
                f"({listed(cluster_names(context.home, Need.STATE))}): `unset {CLUSTER} {NATS_URL} {KUBECONFIG}`, "
                f"or start it with `carico up --name {name}`"
            )
        _check_agreement(context, name)
        return Meant(home=context.home, name=name, by=CLUSTER)
    if not url and not (kubeconfig and need is Need.API):
        return None
    running = _running(context.home)
    files = {str(folders.Paths(context.home / each).kubeconfig): each for each, _ in running}
    of_file = files.get(kubeconfig or "")
    if not url:
        return Meant(home=context.home, name=of_file, api=None if of_file else given.kube, by=KUBECONFIG)
    # By its name it is found again after it was started again.
    of_url = {own.nats_url: each for each, own in running}.get(url)
    if of_url is None:
        at = addresses.remote(url, given.kube, context.environ, given_by=NATS_URL)
        return Meant(home=context.home, elsewhere=at, by=NATS_URL)
    if of_file not in (None, of_url):
        raise errors.SettingsError(
            f"environment: {NATS_URL} is that of cluster {of_url!r}, but {KUBECONFIG} that of {of_file!r}: "
            f'`eval "$(carico env --name {of_url})"` sets both'
        )
    return Meant(home=context.home, name=of_url, by=NATS_URL)


def _check_agreement(context: contexts.Context, name: str) -> None:
    """Raise `SettingsError` where NATS_URL or KUBECONFIG belongs to another cluster than CARICO_CLUSTER."""
    own = dict(_running(context.home)).get(name)
    if own is None:
        return
    expected = {NATS_URL: own.nats_url, KUBECONFIG: str(folders.Paths(context.home / name).kubeconfig)}
    for variable, value in expected.items():
        got = context.environ.get(variable)
        if got and got != value:
            # The address of a bus contains its password, which is new at each start.
            shown, other = (each.rpartition("@")[2] if variable == NATS_URL else each for each in (value, got))
            if other == shown:
                other = "that of an earlier start"
            raise errors.SettingsError(
                f"environment: {CLUSTER} is {name!r}, whose {variable} is {shown}, but {variable} is {other}: "
                f'`eval "$(carico env --name {name})"` sets all three, `unset {CLUSTER}` leaves the address'
            )


def _by_presence(context: contexts.Context, given: Flags, need: Need) -> Meant:
    running = cluster_names(context.home, Need.RUNNING)
    possible = running or cluster_names(context.home, need)
    if len(possible) == 1:
        return Meant(home=context.home, name=possible[0])
    if possible:
        raise errors.SettingsError(
            f"which cluster? {listed(possible)}: give --name, or choose one for a shell: `carico use {possible[0]}`"
        )
    if need is Need.API:
        return Meant(home=context.home, api=given.kube)
    left = cluster_names(context.home, Need.STATE)
    stopped = f" (not running: {', '.join(left)})" if left else ""
    elsewhere = "; NATS_URL or --nats-url names one elsewhere" if _takes_an_address() else ""
    raise errors.SettingsError(f"no cluster runs on this machine{stopped}: `carico up` starts one{elsewhere}")


def _takes_an_address() -> bool:
    """Return whether the command that runs works with clusters elsewhere, too."""
    running = click.get_current_context(silent=True)
    return running is not None and any("--nats-url" in each.opts for each in running.command.params)


def listed(names: list[str]) -> str:
    """Return the names in words.

    >>> listed(["a"]), listed(["a", "b"]), listed([])
    ('there is a', 'there are a, b', 'there is none')
    """
    return f"there are {', '.join(names)}" if len(names) > 1 else f"there is {names[0] if names else 'none'}"


def _running(home: pathlib.Path) -> list[tuple[str, state.ClusterState]]:
    """Return the running clusters of this machine with their state, as far as it can be read."""
    found = []
    for name in cluster_names(home, Need.RUNNING):
        try:
            own = state.read(folders.Paths(home / name))
        except errors.CaricoError:
            continue
        if own is not None:
            found.append((name, own))
    return found

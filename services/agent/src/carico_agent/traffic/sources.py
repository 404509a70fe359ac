"""Open the source of traffic that the settings name. Only the selected adapter is imported."""

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

from carico_agent import ports, settings
from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks


def open_traffic(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, skipped: Callable[[str, int], None]
) -> ports.TrafficSource | None:  # fmt: skip
    """Return the adapter; None for `none`. Raises `EnvironmentUnfit` if it cannot be used here.

    `skipped` counts readings that are skipped, by reason.
    """
    kind, _, argument = chosen.traffic.partition(":")
    if kind == "none":
        return None
    log = logs.RateLimited(logs.get("traffic", node=chosen.node), clock=clock)

    if kind == "sockets":
        return _open_sockets(chosen, skipped=skipped, log=log)
    module = _import(kind)
    common = {"node": chosen.node, "skipped": skipped, "log": log}
    found: ports.TrafficSource = (
        module.Recorded(pathlib.Path(argument), **common) if kind == "recorded" else module.Promql(argument, **common)
    )
    return found


def network_name() -> str:
    """Return the name of the host's network namespace, 32 hex digits at most; empty if it cannot be read.

    It is the start of the machine and the number of the namespace in it.
    """
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")
        return f"{boot[:20]}{pathlib.Path('/proc/self/ns/net').stat().st_ino:012x}"
    except OSError:
        return ""


def _open_sockets(chosen: settings.AgentSettings, **common: Any) -> ports.TrafficSource:
    proc = pathlib.Path(chosen.proc)
    try:
        group = hierarchy.discover(proc / "mounts", below=chosen.cgroup_root).group(chosen.cgroup or ".")
    except port.Absent as error:
        raise errors.EnvironmentUnfit(
            f"--traffic sockets finds Pods by their cgroups: {error}; give --traffic none, recorded:FILE or promql:URL"
        ) from error
    sockets, owners = _import("sockets"), _import("owners")
    found: ports.TrafficSource = sockets.Sockets(owners.Owners(group, proc=proc), proc=proc, **common)
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(f"carico_agent.traffic.{name}")
    except ImportError as error:
        raise errors.EnvironmentUnfit(
            f"--traffic {name} needs the package {error.name}: install carico-agent[kubernetes]"
        ) from error

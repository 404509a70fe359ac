"""`carico record`: writes a node's raw samples and Pod events into a file for `carico replay`."""

import asyncio
import pathlib

import click

from carico_agent import recording
from carico_agent import settings as agent
from carico_cli.clusters import which
from carico_cli.recordings import session
from carico_cli.shell import exits, settings, user_files
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import setting_values
from carico_core.runtime.process import settings as loader
from carico_local.cluster import state
from carico_local.cluster.services import topology

HOST = "host"
# A month takes half a gigabyte, about the most that a replay reads.
_SECONDS_MOST = 30 * 86_400.0


@click.command("record")
@click.option("--out", type=user_files.PATH, required=True, help="File to write; it must not exist.")
@click.option("--for", "seconds", type=float, default=60.0, show_default=True, help="Length in seconds.")
@click.option("--node", help="A node of a cluster of this machine (default: this machine itself).")
@which.name_flag
@click.pass_obj
def command(context: settings.Context, out: pathlib.Path, seconds: float, node: str | None, name: str | None) -> int:
    """Record this machine or an emulated node ten times a second; Ctrl-C ends it early and keeps the file.

    For this machine the settings CARICO_AGENT_... (dims, cgroup, pod_events, ...) apply as for an agent.
    """
    if not 1.0 <= seconds <= _SECONDS_MOST:
        raise errors.SettingsError(f"--for: got {seconds:g}, expected 1 to {_SECONDS_MOST:.0f} seconds")
    if out.exists():
        raise errors.SettingsError(f"--out: got {str(out)!r}, which exists; expected a new file")
    chosen = _of_machine(context, out) if node is None else _of_cluster(context, name, node, out)
    written, notes = asyncio.run(_record(chosen, seconds))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{written.path}: {written.samples} samples, {written.events} Pod events, {written.size_bytes} bytes")
    if written.failure is not None:
        click.echo(f"carico: the recording ended early: {written.failure}", err=True)
        return exits.FAILED
    return 0


def _of_machine(context: settings.Context, out: pathlib.Path) -> agent.AgentSettings:
    environ = {key: value for key, value in context.environ.items() if key.startswith(f"CARICO_{agent.PREFIX}_")}
    flags = ["--record", str(out), *([] if f"CARICO_{agent.PREFIX}_NODE" in environ else ["--node", HOST])]
    return loader.load(agent.AgentSettings, prefix=agent.PREFIX, argv=flags, environ=environ, program="carico record")


def _of_cluster(context: settings.Context, name: str | None, node: str, out: pathlib.Path) -> agent.AgentSettings:
    local = which.meant(context, which.Flags(name=name)).local_name("record on that node itself")
    paths, found = state.running(context.home, local)
    if node not in found.plan.node_names:
        known = ", ".join(found.plan.node_names)
        raise errors.SettingsError(f"--node: got {node!r}, expected one of {known} of cluster {local!r}")
    flags = setting_values.flags({"record": out, **topology.node_facts(found.plan, paths, node)})
    return loader.load(agent.AgentSettings, prefix=agent.PREFIX, argv=flags, environ={}, program="carico record")


async def _record(chosen: agent.AgentSettings, seconds: float) -> tuple[recording.Written, tuple[str, ...]]:
    exits.cancel_on_signals()
    running = session.Session(chosen, clock=clocks.SystemClock())
    notes = list(running.notes)
    try:
        await running.run(seconds)
    except asyncio.CancelledError:
        notes.append("interrupted: the file has everything recorded until then")
    finally:
        written = running.close()
    if running.broken:
        notes.append(f"{running.broken} samples are missing: their sources could not be read")
    return written, tuple(notes)

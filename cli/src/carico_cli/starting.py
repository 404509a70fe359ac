"""Shows a cluster's start: one line a service where there is no terminal, one line in place where there is."""

import click

from carico_cli import settings
from carico_local.cluster import client, events


async def show(launched: client.Launched, context: settings.Context) -> list[str]:
    """The notes of the start (fallbacks and warnings), once the cluster is up. Raises what `until_up` raises."""
    ready = 0
    notes: list[str] = []
    async for event in launched.until_up():
        if event.kind is events.Kind.READY:
            ready += 1
            _line(context, f"{event.after_s:5.1f} s  ready: {event.service}", f"starting: {ready} services ready")
        elif event.kind is events.Kind.NOTE:
            notes.append(event.text)
        elif event.kind is events.Kind.CRASHED:
            _end_line(context)
            say_crash(event)
        elif event.kind is events.Kind.UP:
            _end_line(context)
            click.echo(f"cluster {launched.paths.name} is ready after {event.after_s:.1f} s")
    for note in notes:
        click.echo(f"note: {note}")
    return notes


def say_crash(event: events.Event) -> None:
    """Names a service that ended by itself, with its last words, on stderr."""
    click.echo(f"{event.service} ended by itself ({event.text}); its last lines:", err=True)
    for line in event.crash.last_lines if event.crash else ():
        click.echo(f"  {line}", err=True)


def _line(context: settings.Context, plain: str, drawn: str) -> None:
    if context.plain:
        click.echo(plain)
    else:
        click.echo(f"\r\x1b[2K{drawn}", nl=False)


def _end_line(context: settings.Context) -> None:
    if not context.plain:
        click.echo("\r\x1b[2K", nl=False)

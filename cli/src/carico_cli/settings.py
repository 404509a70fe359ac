"""Where clusters live and what this process's environment says, read once."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

from carico_core.domain import errors
from carico_core.runtime import settings
from carico_local.cluster import state


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Given to every command. `plain`: no terminal to draw on."""

    home: pathlib.Path
    environ: Mapping[str, str]
    plain: bool


def read(*, is_terminal: bool) -> Context:
    """The context of this process."""
    environ = settings.environment()
    # https://no-color.org and a terminal that cannot move its cursor both ask for plain lines.
    plain = not is_terminal or environ.get("TERM", "dumb") == "dumb" or bool(environ.get("NO_COLOR"))
    return Context(home=state.home(environ), environ=environ, plain=plain)


def local(
    context: Context, name: str, *, elsewhere: str,
    find: Callable[[pathlib.Path, str], state.Paths] = state.find,
) -> state.Paths:  # fmt: skip
    """The places of a cluster of this machine. Raises `SettingsError` where there is none of that name.

    elsewhere: what is said, then, to who has the address of a cluster that is not of this machine.
    """
    try:
        return find(context.home, name)
    except errors.SettingsError as error:
        if not context.environ.get("NATS_URL"):
            raise
        raise errors.SettingsError(f"{error}; of the cluster at NATS_URL, {elsewhere}") from None

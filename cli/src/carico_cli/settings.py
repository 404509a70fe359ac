"""Where clusters live and what this process's environment says, read once."""

import dataclasses
import pathlib
from collections.abc import Mapping

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

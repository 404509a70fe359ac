"""The entry point of a service: its settings, its logs, then its work."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from carico_core.domain import errors
from carico_core.runtime import logs, settings, tasks


class Logged(Protocol):
    """What every service's settings say of its logs."""

    @property
    def log_json(self) -> bool | None:
        """True for JSON lines; None: JSON unless stderr is a terminal."""

    @property
    def log_level(self) -> str:
        """The least level that is logged."""


_Chosen = TypeVar("_Chosen", bound=Logged)


def run(
    kind: type[_Chosen], work: Callable[[_Chosen, tasks.Stop], Awaitable[None]], *, prefix: str, program: str
) -> int:
    """The exit code of `work`: 0 stopped, 1 failed, 2 a setting or the surroundings have to be mended."""
    try:
        chosen = settings.load(kind, prefix=prefix, program=program)
    except errors.SettingsError as error:
        return tasks.report(error, program=program)
    logs.setup(service=program, json=chosen.log_json, level=chosen.log_level)
    return tasks.run(lambda stop: work(chosen, stop), program=program)

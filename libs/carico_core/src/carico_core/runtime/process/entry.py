"""The entry point of a service: its settings, its logs, then its work."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import settings, tasks


class Logged(Protocol):
    """What every service's settings have."""

    @property
    def log(self) -> settings.LogSettings:
        """What it logs."""


_Chosen = TypeVar("_Chosen", bound=Logged)


def run(
    kind: type[_Chosen], work: Callable[[_Chosen, tasks.Stop], Awaitable[None]], *, prefix: str, program: str
) -> int:
    """Return the exit code of `work`: 0 stopped, 1 failed, 2 a setting or the environment has to be fixed."""
    try:
        chosen = settings.load(kind, prefix=prefix, program=program)
    except errors.SettingsError as error:
        return tasks.report(error, program=program)
    logs.setup(service=program, json=chosen.log.json, level=chosen.log.level)
    return tasks.run(lambda stop: work(chosen, stop), program=program)

"""The settings that services share: where each says how it is, and what it logs. Parts of its own settings."""

import dataclasses
from typing import ClassVar

from carico_core.runtime import settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Flags --http-..."""

    of_program: ClassVar[bool] = True
    host: str = settings.setting("127.0.0.1", help="address of /healthz, /readyz and /metrics")
    port: int = settings.setting(0, help="its port; 0 a free one, -1 none", minimum=-1, maximum=65535)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Flags --log-..."""

    of_program: ClassVar[bool] = True
    level: str = settings.setting("info", help="least level logged", choices=("debug", "info", "warning", "error"))
    json: bool | None = settings.setting(None, help="JSON log lines", why="JSON unless stderr is a terminal")

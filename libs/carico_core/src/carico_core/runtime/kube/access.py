"""How to reach one API server: its address, TLS, and the credentials in requests with their renewal."""

import asyncio
import dataclasses
import pathlib
import ssl
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

# client-go rereads a token file after this time (transport/token_source.go); kubelets rotate it at 80 % of its life
TOKEN_FILE_PERIOD_S = 60.0


class Credentials(Protocol):
    """The source of the Authorization header."""

    async def authorization(self) -> str | None:
        """Return the header's value, or None for a client that only has a certificate."""
        ...

    def expire(self) -> None:
        """Discard what is cached, because the API answered 401."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one API server."""

    server: str
    tls: ssl.SSLContext | None
    credentials: Credentials
    server_hostname: str | None = None
    proxy: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FixedCredentials:
    """An Authorization value that never changes."""

    value: str | None = None

    async def authorization(self) -> str | None:
        """Return the value."""
        return self.value

    def expire(self) -> None:
        """Do nothing: there is no other value."""


class FileCredentials:
    """A bearer token in a file that is rotated."""

    def __init__(self, path: pathlib.Path, *, clock: clocks.Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at_s = float("-inf")

    async def authorization(self) -> str | None:
        """Return `Bearer <token>`. The file is read again each minute; if that fails, the last token is used."""
        now_s = self._clock.monotonic_s()
        if now_s - self._read_at_s >= TOKEN_FILE_PERIOD_S:
            try:
                # A few hundred bytes on tmpfs: cheaper than a thread.
                self._token = self._path.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise errors.ApiUnavailable(f"token file {self._path} cannot be read: {error.strerror}") from error
            self._read_at_s = now_s
        return f"Bearer {self._token}"

    def expire(self) -> None:
        """Read the file at the next request."""
        self._read_at_s = float("-inf")


class PluginCredentials:
    """A token from an exec plugin or auth provider, through the `kubernetes` package."""

    def __init__(self, loader: Any, configuration: Any) -> None:
        self._loader = loader
        self._configuration = configuration
        self._lock = asyncio.Lock()
        self._expired = False

    async def authorization(self) -> str | None:
        """Return the newest token. A plugin may run a process, so this runs in a thread."""
        async with self._lock:
            return await asyncio.to_thread(self._refresh)

    def expire(self) -> None:
        """Run the plugin at the next request."""
        self._expired = True

    def _refresh(self) -> str | None:
        if self._expired:
            self._loader.load_and_set(self._configuration)
            self._expired = False
        elif self._configuration.refresh_api_key_hook is not None:
            self._configuration.refresh_api_key_hook(self._configuration)
        value = self._configuration.api_key.get("BearerToken")
        return None if value is None else str(value)


def tls_context(where: str, *, cafile: str | None, cadata: str | None, verify: bool) -> ssl.SSLContext:
    """Return TLS to an API server. Raises `KubeconfigError`, which names `where` the authority was found."""
    try:
        tls = ssl.create_default_context(cafile=cafile, cadata=cadata)
    except (OSError, ValueError) as error:
        raise errors.KubeconfigError(
            f"{where}: the certificate authority cannot be used: {errors.one_line(error)}; expected PEM certificates"
        ) from error
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls

"""Ports of the reader: the bus, the Kubernetes API, a way to connect to both, and optionally a record."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from carico_cli.live import addresses
from carico_core.runtime.bus import port as buses

if TYPE_CHECKING:
    # Who only asks lists nothing.
    from carico_core.runtime.kube import list_watch


class Bus(Protocol):
    """The bus."""

    @property
    def connected(self) -> bool: ...

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription: ...

    async def latest_capacities(self) -> list[tuple[str, bytes]]: ...

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]: ...

    async def get_model(self) -> bytes | None: ...

    async def recent_summaries(self) -> list[bytes]: ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]: ...

    def on_reconnect(self, callback: Callable[[], None]) -> None: ...

    async def wait_closed(self) -> NoReturn: ...


class Api(Protocol):
    """The Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, options: "list_watch.Options | None" = None,
        freshness: "list_watch.CopyAge | None" = None,
    ) -> AsyncIterator["list_watch.MirrorEvent"]: ...  # fmt: skip

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any: ...

    def stream(self, method: str, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[bytes]: ...


class SignalSink(Protocol):
    """Receives the same signals, for a report."""

    def on_capacity(self, subject: str, payload: bytes) -> None: ...

    def on_decision(self, subject: str, payload: bytes) -> None: ...

    def on_pods(self, event: "list_watch.MirrorEvent") -> None: ...


class Connect(Protocol):
    """Connects to a cluster's bus and API until the block is left. Where there is no API: the reason, in one line."""

    def __call__(self, address: addresses.Address) -> contextlib.AbstractAsyncContextManager[tuple[Bus, Api | str]]: ...

"""The connections of all servers, and the end of those that must not go on; otherwise one lasts as long as its token.

The servers list their connections, each with the Pod of its token in its name (`policy.Grant.bus_name`). So a replica
also knows those that another one let in, or one that has been restarted since.
"""

import asyncio
import dataclasses
import datetime
import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import orjson

from carico_auth import instruments, policy
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts

# Between two looks at the connections. Each costs a replica 6 us a connection.
EVERY_S = 5.0
PAUSE_S = 1.0
# Connections that a server lists in one answer, of about 600 bytes each.
PAGE = 2048
# Open and closed ones: https://docs.nats.io/running-a-nats-service/nats_admin/monitoring#connection-information
_ALL = 2
# Servers answer at once; how many there are is not known.
ANSWERS_WITHIN_S = 1.0
_KICK_TIMEOUT_S = 2.0


class Bus(Protocol):
    """The part of the bus that reaches the servers."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...

    async def request_all(self, subject: str, payload: bytes, *, within_s: float) -> Sequence[bytes]: ...


class Fault(enum.StrEnum):
    """Why a client is disconnected: the label of the counter."""

    POD_GONE = "pod_gone"
    FLOOD = "flood"


_WHY = {Fault.POD_GONE: "its Pod is gone", Fault.FLOOD: "it sends far too much"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection as its server numbers it, whose it is and from where, how long it has lasted, what it has sent.

    `is_open` False: it has ended. A server remembers the last 10,000 that have.
    """

    server_id: str
    client_id: int
    client: policy.Client
    address: str
    age_s: float
    messages: int
    size_bytes: int
    is_open: bool = True


# Yields which of the open connections to an account must end, each as things stand when it is its turn.
Rule: TypeAlias = Callable[[accounts.Account, Sequence[Connection]], Iterable[Connection]]


class Connections:
    """Looks at all connections, and disconnects those that a rule names."""

    def __init__(
        self, counted: instruments.Instruments, *, rules: Mapping[Fault, Rule], clock: clocks.Clock
    ) -> None:  # fmt: skip
        # None until it is connected.
        self.bus: Bus | None = None
        self._counted = counted
        self._rules = rules
        self._clock = clock
        self._line = logs.get("connections")
        self._limited = logs.RateLimited(self._line, clock=clock)

    async def run_forever(self) -> None:
        """Look every few seconds, until cancelled."""
        pause_s = EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            began_s = self._clock.monotonic_s()
            await self.sweep()
            # A look at thousands of connections takes seconds.
            pause_s = max(EVERY_S - (self._clock.monotonic_s() - began_s), PAUSE_S)

    async def sweep(self) -> None:
        """Look once. What a server does not answer is tried at the next look."""
        bus = self.bus
        if bus is None:
            return
        silent: set[str] = set()
        for account in accounts.POD_ACCOUNTS:
            found = await self._listed(bus, account)
            for fault, rule in self._rules.items():
                for connection in rule(account, found):
                    # A server that does not answer is asked once, so that it does not delay what others are asked.
                    if connection.server_id not in silent and not await self._disconnect(bus, connection, fault):
                        silent.add(connection.server_id)

    async def _listed(self, bus: Bus, account: accounts.Account) -> list[Connection]:
        """Return the connections to an account, as all servers list them, with those that have ended."""
        found: list[Connection] = []
        for offset in itertools.count(0, PAGE):
            question = orjson.dumps({"auth": True, "limit": PAGE, "offset": offset, "state": _ALL})
            try:
                answers = await bus.request_all(accounts.connections(account), question, within_s=ANSWERS_WITHIN_S)
                if not answers:
                    raise errors.BusUnavailable("no server answers")
            except errors.BusError as error:
                self._not_listed(account, error)
                return found
            has_more = False
            for answer in answers:
                # A server that reports an error must not hide the connections of the others.
                try:
                    connections, is_cut = parse_page(answer)
                except ValueError as error:
                    self._not_listed(account, error)
                    continue
                found += connections
                has_more = has_more or is_cut
            if not has_more:
                return found
        raise AssertionError("count() does not end")

    def _not_listed(self, account: accounts.Account, error: Exception) -> None:
        self._limited.warning("list", "connections cannot be listed", account=account.value, error=str(error))

    async def _disconnect(self, bus: Bus, connection: Connection, fault: Fault) -> bool:
        """Return whether the server has answered."""
        subject = accounts.KICK_SUBJECTS.replace("*", connection.server_id)
        try:
            answer = await bus.request(
                subject, orjson.dumps({"cid": connection.client_id}), timeout_s=_KICK_TIMEOUT_S
            )  # fmt: skip
        except errors.BusError as error:
            self._limited.warning(connection.server_id, "not disconnected", error=str(error))
            return False
        # A client that has left, or that another replica has disconnected, is an error of the server's answer.
        if "error" not in _parsed(answer):
            self._counted.disconnected.labels(fault.value).inc()
            client = connection.client
            self._line.info(f"disconnected: {_WHY[fault]}", identity=client.identity, pod_uid=client.uid)
        return True


def parse_page(answer: bytes) -> tuple[list[Connection], bool]:
    """Return the connections in a server's answer to CONNZ, and whether it has more.

    Raises `ValueError` for anything else. https://docs.nats.io/running-a-nats-service/configuration/sys_accounts
    """
    try:
        said = orjson.loads(answer)
        server_id, data = str(said["server"]["id"]), said["data"]
        now = datetime.datetime.fromisoformat(data["now"])
        listed = data["connections"]
        found = [
            Connection(
                server_id=server_id, client_id=int(each["cid"]),
                client=policy.parse_bus_name(each.get("authorized_user", "")), address=str(each.get("ip", "")),
                age_s=(_ended(each, now) - datetime.datetime.fromisoformat(each["start"])).total_seconds(),
                messages=int(each["in_msgs"]), size_bytes=int(each["in_bytes"]), is_open="stop" not in each,
            )
            for each in listed
        ]  # fmt: skip
        return found, int(data["offset"]) + len(listed) < int(data["total"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"expected a list of connections, got {answer[:200]!r} ({error!r})") from error


def _ended(connection: Mapping[str, Any], now: datetime.datetime) -> datetime.datetime:
    """Return when a connection has ended; `now` if it has not."""
    return datetime.datetime.fromisoformat(connection["stop"]) if "stop" in connection else now


def _parsed(answer: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {"error": "no JSON"}
    return found if isinstance(found, dict) else {"error": "no object"}

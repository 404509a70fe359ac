"""Who sends far more than anyone has to: NATS has no limit of a client's rate.

Such a client is disconnected, and the callout does not let an agent's identity in again for a while. Between two looks
it may send what it likes: a scheduler does not listen to it (`carico_scheduler.intake.listening`), and the services
refuse and count what is wrong in it.
"""

from collections.abc import Iterator, Sequence

from carico_auth import connections, policy
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts, roles

# An agent sends some messages a second, and 500 answers at most; a reader sends less.
MOST_MESSAGES_S = 20_000.0
MOST_BYTES_S = 64 * 2.0**20
# What a client sends right after it has connected is no flood by itself.
LEAST_S = 1.0
REFUSED_S = 60.0
# How the callout names agents (`policy.decide`).
_OF_A_NODE = f"{roles.Role.AGENT.value}/"
# Services may send as much as they need.
WATCHED = (accounts.Account.AGENTS, accounts.Account.READERS)


class Floods:
    """Each connection as it was at the last look, also of those that have ended, and who is not let in."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._before: dict[accounts.Account, dict[tuple[str, int], connections.Connection]] = {}
        # Until when, by identity.
        self._refused: dict[str, float] = {}

    def flooding(
        self, account: accounts.Account, found: Sequence[connections.Connection]
    ) -> Iterator[connections.Connection]:
        """See `connections.Rule`: yield those whose sender has sent too much since the last look."""
        if account not in WATCHED:
            return
        known = self._before.get(account, {})
        servers = {server_id for server_id, _ in known}
        self._before[account] = {_key(each): each for each in found}
        shares: dict[object, float] = {}
        for each in found:
            # At the first look at a server, and after one that it did not answer, it is not known when what has ended
            # has sent.
            if each.is_open or each.server_id in servers:
                sender = _sender(account, each)
                shares[sender] = shares.get(sender, 0.0) + _share(each, known.get(_key(each)))
        for each in found:
            share = shares.get(_sender(account, each), 0.0)
            if account is accounts.Account.READERS and _key(each) not in known:
                # One that ends its connections, and opens others, goes on by these.
                share += shares.get(_place(each), 0.0)
            if share > 1.0:
                if account is accounts.Account.AGENTS:
                    self._refused[each.client.identity] = self._clock.monotonic_s() + REFUSED_S
                if each.is_open:
                    yield each

    def refuse(self, grant: policy.Grant) -> policy.Refusal | None:
        """Return why a client is not let in, or None."""
        now_s = self._clock.monotonic_s()
        self._refused = {name: until_s for name, until_s in self._refused.items() if now_s < until_s}
        if grant.name not in self._refused:
            return None
        return policy.Refusal(reason=policy.Refused.FLOOD, detail=f"{grant.name}: for {REFUSED_S:g} s after its last")


def _sender(account: accounts.Account, connection: connections.Connection) -> object:
    """Return what the connections of one sender have in common.

    Readers share an identity, so that each open connection of theirs counts alone, and those that have ended by their
    address. The callout identifies agents by their nodes. A static key may be that of all agents: those of one address
    count together.
    """
    if account is not accounts.Account.AGENTS:
        return _key(connection) if connection.is_open else _place(connection)
    identity = connection.client.identity
    return identity if identity.startswith(_OF_A_NODE) else _place(connection)


def _place(connection: connections.Connection) -> tuple[str, str]:
    return connection.client.identity, connection.address


def _key(connection: connections.Connection) -> tuple[str, int]:
    return connection.server_id, connection.client_id


def _share(now: connections.Connection, before: connections.Connection | None) -> float:
    """Return how much a connection has sent since then, or since it began, as a share of the most."""
    messages, size_bytes, seconds = now.messages, now.size_bytes, now.age_s
    if before is not None:
        messages, size_bytes, seconds = (
            messages - before.messages, size_bytes - before.size_bytes, seconds - before.age_s,
        )  # fmt: skip
    return max(messages / MOST_MESSAGES_S, size_bytes / MOST_BYTES_S) / max(seconds, LEAST_S)

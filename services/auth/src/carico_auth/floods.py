"""Who sends far more than anyone has to: NATS has no limit of a client's rate.

Such a client is disconnected, and an agent's identity is not let in again for a while. Between two looks it may send
what it likes; the services refuse and count what is wrong in it.
"""

from collections.abc import Iterator, Sequence

from carico_auth import connections, policy
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts

# An agent sends some messages a second, a reader less. Readers can make an agent answer some 10,000 questions a second.
MOST_MESSAGES_S = 20_000.0
MOST_BYTES_S = 64 * 2.0**20
# What a client sends right after it has connected is no flood by itself.
LEAST_S = 1.0
REFUSED_S = 60.0
# Services may send as much as they need.
WATCHED = (accounts.Account.AGENTS, accounts.Account.READERS)


class Floods:
    """Each connection as it was at the last look, and who is not let in."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._before: dict[accounts.Account, dict[tuple[str, int], connections.Connection]] = {}
        # Until when, by identity.
        self._refused: dict[str, float] = {}

    def flooding(
        self, account: accounts.Account, found: Sequence[connections.Connection]
    ) -> Iterator[connections.Connection]:
        """See `connections.Rule`: yield those whose sender has sent too much since the last look.

        All connections of an agent count together. Readers share an identity, so that each of theirs counts alone.
        """
        if account not in WATCHED:
            return
        before = self._before.get(account, {})
        self._before[account] = {_key(each): each for each in found}
        is_agents = account is accounts.Account.AGENTS
        senders = [each.client.identity if is_agents else _key(each) for each in found]
        shares: dict[object, float] = {}
        for sender, each in zip(senders, found, strict=True):
            shares[sender] = shares.get(sender, 0.0) + _share(each, before.get(_key(each)))
        for sender, each in zip(senders, found, strict=True):
            if shares[sender] > 1.0:
                if is_agents:
                    self._refused[each.client.identity] = self._clock.monotonic_s() + REFUSED_S
                yield each

    def refuse(self, grant: policy.Grant) -> policy.Refusal | None:
        """Return why a client is not let in, or None."""
        now_s = self._clock.monotonic_s()
        self._refused = {name: until_s for name, until_s in self._refused.items() if now_s < until_s}
        if grant.name not in self._refused:
            return None
        return policy.Refusal(reason=policy.Refused.FLOOD, detail=f"{grant.name}: for {REFUSED_S:g} s after its last")


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

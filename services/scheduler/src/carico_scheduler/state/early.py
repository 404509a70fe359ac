"""Advertisements of nodes that the API does not show, undecoded: anyone with an agent's key may make up such nodes.

Pure: times are arguments.
"""

from collections.abc import Callable
from typing import NamedTuple

from carico_core.domain import errors

# 5,000 messages of 3 kB. Decoded, one of 45 kB takes 600 kB.
MOST_BYTES = 16 << 20
# What a message takes besides its bytes: the objects around it, its subject, its place in the table.
_AROUND_BYTES = 512


class Message(NamedTuple):
    """A message of a node that the API does not show. `wall_ns`: when it was recalled; None: it came by itself."""

    payload: bytes
    arrival_s: float
    wall_ns: int | None


class Early:
    """The newest message of each node that the API does not show, as it came: the first lists arrive in any order.

    Each is kept for a lease. If they are too many, the oldest are dropped: their nodes report again within a second.
    """

    def __init__(self, *, lease_s: float) -> None:
        # Called with subject, reason and detail of each that is dropped for want of room.
        self.on_drop: Callable[[str, str, str], None] = lambda subject, reason, detail: None
        self._lease_s = lease_s
        # Oldest first.
        self._held: dict[str, Message] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, subject: str) -> bool:
        return subject in self._held

    def store(self, subject: str, payload: bytes, arrival_s: float, *, wall_ns: int | None = None) -> None:
        """Keep the newest message of a subject; `wall_ns`: the wall clock, if the bus had stored the message."""
        if wall_ns is not None and subject in self._held:
            return
        self.take(subject)
        self._held[subject] = Message(payload, arrival_s, wall_ns)
        self._size_bytes += _size_of(payload)
        while self._size_bytes > MOST_BYTES:
            oldest = next(iter(self._held))
            self.take(oldest)
            detail = f"nodes that the API does not show fill the {MOST_BYTES >> 20} MiB that there are for them"
            self.on_drop(oldest, errors.Drop.TOO_MANY, detail)

    def take(self, subject: str) -> Message | None:
        """Remove the message of a subject and return it."""
        found = self._held.pop(subject, None)
        if found is not None:
            self._size_bytes -= _size_of(found.payload)
        return found

    def expire(self, now_s: float) -> None:
        """Remove those that are older than a lease."""
        while self._held and now_s - next(iter(self._held.values())).arrival_s > self._lease_s:
            self.take(next(iter(self._held)))


def _size_of(payload: bytes) -> int:
    return len(payload) + _AROUND_BYTES

"""Advertisements from bytes to records: only the newest of each node is kept, and decoded when the cycle needs it.

The bus callback only stores bytes: a burst of a thousand advertisements of one node is decoded once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from carico_core.domain import errors, messages
from carico_core.wire import freshness
from carico_core.wire import messages as wire
from carico_scheduler.state import node_state

# Subjects kept between two drains: more than the largest cluster has nodes (Kubernetes supports 5,000).
_PENDING_MAX = 50_000
# A message as it arrives.
_P = TypeVar("_P")


class Newest(Generic[_P]):
    """The newest message of each subject, decoded into advertisements; drops are counted by reason."""

    def __init__(
        self, *, lease_s: float, on_drop: Callable[[str, str, str], None],
        parse: Callable[[str, _P], messages.Advertisement],
    ) -> None:  # fmt: skip
        """`on_drop(subject, reason, detail)` is called for every message dropped.

        `parse(subject, payload)` returns the advertisement in a message, or raises `MessageError`.
        """
        self._lease_s = lease_s
        self._parse = parse
        self._on_drop = on_drop
        self._guard = freshness.SequenceGuard(lease_s)
        self._ages = freshness.AgeTracker()
        self._pending: dict[str, tuple[_P, float]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def store(self, subject: str, payload: _P, arrival_s: float) -> None:
        """Keep the newest message of a subject; `arrival_s` is monotonic."""
        if len(self._pending) >= _PENDING_MAX and subject not in self._pending:
            self._on_drop(subject, errors.Drop.TOO_MANY, f"more than {_PENDING_MAX} subjects")
            return
        self._pending[subject] = (payload, arrival_s)

    def drain(self, most: int = 1000) -> list[node_state.Heard]:
        """Return up to `most` new advertisements, oldest arrival first."""
        heard: list[node_state.Heard] = []
        while self._pending and len(heard) < most:
            subject = next(iter(self._pending))
            payload, arrival_s = self._pending.pop(subject)
            one = self._decode(subject, payload, arrival_s)
            if one is not None:
                heard.append(one)
        return heard

    def recall(self, subject: str, payload: _P, *, now_s: float, wall_ns: int) -> node_state.Heard | None:
        """Return an advertisement that the bus had stored, its age taken from the wall clock; None if it is dropped.

        It is also None if a newer one of the node has arrived; that is not counted as a drop.
        """
        advertisement = self._parse_or_drop(subject, payload)
        if advertisement is None or self._refusal(advertisement, now_s) is not None:
            return None
        age_s = max(0, wall_ns - advertisement.sampled_at_ns) / 1e9
        return self._young(subject, advertisement, now_s - age_s, age_s)

    def _decode(self, subject: str, payload: _P, arrival_s: float) -> node_state.Heard | None:
        advertisement = self._parse_or_drop(subject, payload)
        if advertisement is None:
            return None
        drop = self._refusal(advertisement, arrival_s)
        if drop is not None:
            self._on_drop(subject, drop.value, f"boot {advertisement.boot} seq {advertisement.seq}")
            return None
        age_s = self._ages.age_at_arrival_s(
            advertisement.node,
            boot=advertisement.boot,
            sampled_at_ns=advertisement.sampled_at_ns,
            ts_ns=advertisement.ts_ns,
            arrival_ns=round(arrival_s * 1e9),
        )
        return self._young(subject, advertisement, arrival_s - age_s, age_s)

    def _parse_or_drop(self, subject: str, payload: _P) -> messages.Advertisement | None:
        try:
            return self._parse(subject, payload)
        except errors.MessageError as error:
            self._on_drop(subject, error.reason.value, str(error))
            return None

    def _refusal(self, advertisement: messages.Advertisement, now_s: float) -> errors.Drop | None:
        """Return why it is no newer than the node's previous advertisement; None if it is newer."""
        return self._guard.accept(advertisement.node, advertisement.boot, advertisement.seq, now_s)

    def _young(
        self, subject: str, advertisement: messages.Advertisement, sampled_s: float, age_s: float
    ) -> node_state.Heard | None:
        if age_s > self._lease_s:
            self._on_drop(subject, errors.Drop.TOO_OLD.value, f"{age_s:.1f} s old, lease {self._lease_s:g} s")
            return None
        return node_state.Heard(advertisement=advertisement, sampled_s=sampled_s)


class Advertisements(Newest[bytes]):
    """Advertisements as bytes from the bus."""

    def __init__(self, *, lease_s: float, on_drop: Callable[[str, str, str], None]) -> None:
        """See `Newest`."""
        super().__init__(lease_s=lease_s, on_drop=on_drop, parse=_from_bytes)


def _from_bytes(subject: str, payload: bytes) -> messages.Advertisement:
    return wire.decode_advertisement(payload, subject=subject)

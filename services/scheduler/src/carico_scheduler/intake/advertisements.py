"""Advertisements from bytes to records: only the newest of each node is kept, and decoded when the cycle wants it.

The bus's callback stores bytes and nothing else: a burst of a thousand advertisements of one node costs one decoding.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from carico_core.domain import errors, messages
from carico_core.wire import freshness
from carico_core.wire import messages as wire
from carico_scheduler import state

# Subjects held between two drains: more than the largest cluster has nodes (Kubernetes supports 5,000).
_PENDING_MAX = 50_000
TOO_MANY = "too_many"
# A message as it arrives.
_P = TypeVar("_P")


class Newest(Generic[_P]):
    """Messages in, advertisements out; what is dropped is counted by reason."""

    def __init__(
        self, *, lease_s: float, on_drop: Callable[[str, str, str], None],
        parse: Callable[[str, _P], messages.Advertisement],
    ) -> None:  # fmt: skip
        """`on_drop(subject, reason, detail)` is called for every message dropped.

        `parse(subject, payload)`: the advertisement in a message; raises `MessageError`.
        """
        self._lease_s = lease_s
        self._read = parse
        self._on_drop = on_drop
        self._guard = freshness.SequenceGuard(lease_s)
        self._ages = freshness.AgeTracker()
        self._pending: dict[str, tuple[_P, float]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def store(self, subject: str, payload: _P, arrival_s: float) -> None:
        """Keeps the newest message of a subject; `arrival_s` is monotonic."""
        if len(self._pending) >= _PENDING_MAX and subject not in self._pending:
            self._on_drop(subject, TOO_MANY, f"more than {_PENDING_MAX} subjects")
            return
        self._pending[subject] = (payload, arrival_s)

    def drain(self, most: int = 1000) -> list[state.Heard]:
        """Up to `most` new advertisements, oldest arrival first."""
        heard: list[state.Heard] = []
        while self._pending and len(heard) < most:
            subject = next(iter(self._pending))
            payload, arrival_s = self._pending.pop(subject)
            one = self._decode(subject, payload, arrival_s)
            if one is not None:
                heard.append(one)
        return heard

    def recall(self, subject: str, payload: _P, *, now_s: float, wall_ns: int) -> state.Heard | None:
        """An advertisement that the bus had stored, aged by the wall clock: how long it lay there is not known.

        None where the node has been heard since, which is no loss and not counted as one.
        """
        advertisement = self._parse(subject, payload)
        if advertisement is None or self._refusal(advertisement, now_s) is not None:
            return None
        age_s = max(0, wall_ns - advertisement.sampled_at_ns) / 1e9
        return self._young(subject, advertisement, now_s - age_s, age_s)

    def _decode(self, subject: str, payload: _P, arrival_s: float) -> state.Heard | None:
        advertisement = self._parse(subject, payload)
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

    def _parse(self, subject: str, payload: _P) -> messages.Advertisement | None:
        try:
            return self._read(subject, payload)
        except errors.MessageError as error:
            self._on_drop(subject, error.reason.value, str(error))
            return None

    def _refusal(self, advertisement: messages.Advertisement, now_s: float) -> errors.Drop | None:
        """Why it is no newer than what the node said before; None where it is."""
        return self._guard.accept(advertisement.node, advertisement.boot, advertisement.seq, now_s)

    def _young(
        self, subject: str, advertisement: messages.Advertisement, sampled_s: float, age_s: float
    ) -> state.Heard | None:
        if age_s > self._lease_s:
            self._on_drop(subject, errors.Drop.TOO_OLD.value, f"{age_s:.1f} s old, lease {self._lease_s:g} s")
            return None
        return state.Heard(advertisement=advertisement, sampled_s=sampled_s)


class Advertisements(Newest[bytes]):
    """Bytes in, decoded advertisements out."""

    def __init__(self, *, lease_s: float, on_drop: Callable[[str, str, str], None]) -> None:
        """As of `Newest`."""
        super().__init__(lease_s=lease_s, on_drop=on_drop, parse=_from_bytes)


def _from_bytes(subject: str, payload: bytes) -> messages.Advertisement:
    return wire.decode_advertisement(payload, subject=subject)

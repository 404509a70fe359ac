"""What the scheduler answers when asked on the bus: JSON in, JSON out. Queries only; nothing changes by them."""

import dataclasses
import math
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.wire import freshness
from carico_core.wire import messages as wire
from carico_scheduler import decisions, state

VERBS = ("decision.get", "reservations.list", "capacity.list")


class BadQuestion(errors.CaricoError):
    """A question that lacks what it needs; the answer says what."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The endpoints of the service, over the scheduler's state."""

    state: state.State
    log: decisions.Log
    clock: clocks.Clock
    lease_s: float

    def endpoints(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]:
        """Verb -> handler."""
        return {
            "decision.get": self.decision_get,
            "reservations.list": self.reservations_list,
            "capacity.list": self.capacity_list,
        }

    async def decision_get(self, payload: bytes) -> bytes:
        """The newest decision about the Pod of {"namespace", "pod"}; {"found": false} where none is remembered."""
        asked = _question(payload)
        namespace, pod = asked.get("namespace", "default"), asked.get("pod")
        if not isinstance(namespace, str) or not isinstance(pod, str):
            raise BadQuestion('expected {"namespace": "default", "pod": "NAME"}')
        found = self.log.latest(namespace, pod)
        if found is None:
            return orjson.dumps({"found": False, "namespace": namespace, "pod": pod})
        return b'{"found":true,"decision":' + wire.encode_decision(found) + b"}"

    async def reservations_list(self, payload: bytes) -> bytes:
        """Every Pod that is placed and that its node does not account for yet, by node."""
        now_s = self.clock.monotonic_s()
        rows = [
            {
                "node": claim.node,
                "pod": claim.key,
                "uid": claim.uid,
                "age_s": round(now_s - since_s, 3),
                "binding": claim.is_assumed,
            }
            for claim, since_s in self.state.ledger.reservations()
        ]
        return orjson.dumps({"reservations": rows})

    async def capacity_list(self, payload: bytes) -> bytes:
        """Every node with what it advertises, what is reserved, and what is free by the cycle's rules."""
        view = self.state.fleet.snapshot(self.clock.monotonic_s())
        rows: list[dict[str, Any]] = []
        for name in sorted(self.state.fleet.names()):
            slot = self.state.fleet.slot_of(name)
            assert slot is not None
            row = view.row(slot)
            age_s = view.now_s - row.sampled_s
            rows.append(
                {
                    "node": name,
                    "freshness": freshness.classify(age_s, lease_s=self.lease_s).value,
                    "age_s": _finite(age_s),
                    "capacity": _finite(row.capacity),
                    "free": _finite(row.typical_free()),
                    "reserved": row.reserved,
                    "pods": row.pods,
                    "placed": row.placed,
                    "limit": _finite(row.limit),
                    "seq": row.seq,
                }
            )
        return orjson.dumps({"nodes": rows})


def _question(payload: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(payload or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadQuestion(f"expected a JSON object: {error}") from error
    if not isinstance(asked, dict):
        raise BadQuestion(f"got {type(asked).__name__}, expected a JSON object")
    return asked


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None

"""What an agent that lies would advertise."""

import dataclasses

from carico_core.wire import messages as wire
from carico_core.wire import subjects

BOAST_PODS = 1000.0


def boast(payload: bytes, *, node: str, covers: bool) -> bytes:
    """The advertisement with room for `BOAST_PODS` of every class and no limit; covering no Pod unless `covers`."""
    said = wire.decode_advertisement(payload, subject=subjects.capacity(node))
    headroom = None
    if said.headroom is not None and said.classes is not None:
        dearest = {dim: max(each.cost_plus.get(dim, 0.0) for each in said.classes.values()) for dim in said.headroom}
        headroom = {dim: BOAST_PODS * cost for dim, cost in dearest.items()}
    return wire.encode_advertisement(
        dataclasses.replace(
            said, capacity=BOAST_PODS, headroom=headroom, limit=None, covers=said.covers if covers else frozenset()
        )
    )

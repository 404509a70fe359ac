"""What an agent that lies would advertise."""

from carico_core.domain import messages

BOAST_PODS = 1000.0


def boast(said: messages.Advertisement, *, covers: bool) -> messages.Advertisement:
    """The advertisement with room for `BOAST_PODS` of every class and no limit; covering no Pod unless `covers`."""
    headroom = None
    if said.headroom is not None and said.classes is not None:
        dearest = {dim: max(each.cost_plus.get(dim, 0.0) for each in said.classes.values()) for dim in said.headroom}
        headroom = {dim: BOAST_PODS * cost for dim, cost in dearest.items()}
    return said._replace(
        capacity=BOAST_PODS, headroom=headroom, limit=None, covers=said.covers if covers else frozenset()
    )

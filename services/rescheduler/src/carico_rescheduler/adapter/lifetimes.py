"""Asks the aggregator how long Pods of each class live on average, as agents have learnt it."""

import orjson

from carico_core.domain import errors
from carico_core.wire import subjects
from carico_rescheduler.adapter import scheduler
from carico_rescheduler.context import cluster as clusters

SUBJECT = subjects.query("aggregator", "model.get")
# A plan waits for it.
ANSWER_MOST_S = 2.0


async def ask(bus: scheduler.Bus, into: clusters.Cluster) -> str:
    """Take in the lifetimes of now; return why they are as before, or empty: plans are made without them as well."""
    try:
        answer = await bus.request(SUBJECT, b"", timeout_s=ANSWER_MOST_S)
        found = orjson.loads(answer)["evidence"]
        into.lifetimes_s = {
            name: float(each["lifetime_s"]["mean"]) for name, each in found.items() if each.get("lifetime_s")
        }
    except errors.BusError as error:
        return str(error)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"the answer of the aggregator cannot be read: {error}"
    return ""

"""Asks a service of a cluster over its bus."""

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from carico_cli.live import addresses
from carico_core.domain import errors
from carico_core.wire import subjects


class NoAnswer(errors.BusUnavailable):
    """No such service answers on the bus."""


class Refused(errors.UserError):
    """The service refuses the question; the message says why."""


class Bus(Protocol):
    """The bus."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


async def ask(
    bus: Bus, at: addresses.Address, service: str, verb: str, question: Mapping[str, object], *, within_s: float,
    hint: str,
) -> dict[str, Any]:  # fmt: skip
    """Return the answer. `hint`: why there may be none, and what to do. Raises `NoAnswer`, `Refused`."""
    subject = subjects.query(service, verb)
    try:
        answer: dict[str, Any] = orjson.loads(await bus.request(subject, orjson.dumps(question), timeout_s=within_s))
    except errors.BusUnavailable:
        raise NoAnswer(f"no {service} answers at {at.name}: {hint}") from None
    except errors.BusError as error:
        raise Refused(str(error).removeprefix(f"{subject}: ")) from None
    return answer

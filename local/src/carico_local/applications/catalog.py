"""The services of the three applications: whom each calls for a request, what it computes, and where it begins.

After Bracke et al., section 5.3: "Online Boutique" (11 services, figure 11), a vehicle routing problem (figure 2), and
the data hub "Obelisk" with its message brokers (figure 12). Nodes at the start, requests, and Pods that stay (a star in
the paper) are those of tables 9 and 10; the amounts of work and data are ours. A service calls others one by one.
"""

import dataclasses
import enum
from collections.abc import Mapping

from carico_core.domain import errors

# The nodes of the paper's cluster, with 24 cores and 24 GB each (table 1).
NODES = 6
NODE_CORES = 24.0
NODE_GB = 24.0


class Kind(enum.StrEnum):
    """What a service does: answer requests, keep messages, or read them from a broker and act on each batch."""

    SERVICE = "service"
    BROKER = "broker"
    READER = "reader"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to another service. `topic`: of a broker."""

    service: str
    route: str = "/"
    topic: str = ""
    request_bytes: int = 400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request causes: work on one emulated core, calls, and an answer.

    `passes_on`: the answer has the messages of the last call's answer.
    """

    work_ms: float = 1.0
    calls: tuple[Call, ...] = ()
    answer_bytes: int = 1_000
    passes_on: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service with one Pod. `node`: 1 to 6, at the start. `stays`: it may not move.

    `cores`, `memory_gb`: requests on the paper's nodes. `reads`: the broker's topic of a reader.
    """

    name: str
    node: int
    routes: Mapping[str, Route] = dataclasses.field(default_factory=dict)
    kind: Kind = Kind.SERVICE
    reads: Call | None = None
    stays: bool = False
    cores: float = 0.1
    memory_gb: float = 0.12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Services that belong together. `entry`: the one that users call."""

    name: str
    entry: str
    services: tuple[Service, ...]


def _boutique() -> Application:
    def name(part: str) -> str:
        return f"boutique-{part}"

    catalog = Call(service=name("catalog"), route="/product")
    currency = Call(service=name("currency"), route="/convert")
    cart = Call(service=name("cart"), route="/get")
    redis = Call(service=name("redis"))
    ad = Call(service=name("ad"))
    recommendation = Call(service=name("recommendation"))
    frontend = {
        "/": Route(calls=(currency, Call(service=name("catalog"), route="/list"), cart, ad), answer_bytes=10_000),
        "/currency": Route(calls=(currency,)),
        "/product": Route(calls=(catalog, currency, cart, recommendation, ad), answer_bytes=8_000),
        "/cart": Route(calls=(catalog, Call(service=name("cart"), route="/add"))),
        "/checkout": Route(calls=(Call(service=name("checkout")), recommendation, currency), answer_bytes=5_000),
    }
    checkout = Route(
        calls=(
            cart, catalog, currency, Call(service=name("shipping"), route="/quote"), currency,
            Call(service=name("payment")), Call(service=name("shipping"), route="/ship"),
            Call(service=name("cart"), route="/empty"), Call(service=name("email"), request_bytes=3_000),
        )
    )  # fmt: skip
    of_cart = Route(calls=(redis,))
    return Application(
        name="boutique",
        entry=name("frontend"),
        services=(
            Service(name=name("frontend"), node=2, routes=frontend),
            Service(name=name("currency"), node=6, routes={"/convert": Route(work_ms=0.5, answer_bytes=500)}),
            Service(name=name("ad"), node=1, routes={"/": Route(work_ms=0.5)}),
            Service(
                name=name("catalog"), node=1,
                routes={"/list": Route(answer_bytes=6_000), "/product": Route(work_ms=0.5, answer_bytes=1_500)},
            ),
            Service(
                name=name("recommendation"), node=3,
                routes={"/": Route(calls=(Call(service=name("catalog"), route="/list"),))},
            ),
            Service(name=name("checkout"), node=3, routes={"/": checkout}),
            Service(name=name("payment"), node=6, routes={"/": Route(answer_bytes=300)}),
            Service(name=name("shipping"), node=4, routes={"/quote": Route(), "/ship": Route()}),
            Service(name=name("email"), node=5, routes={"/": Route(answer_bytes=300)}),
            Service(name=name("cart"), node=5, routes=dict.fromkeys(("/get", "/add", "/empty"), of_cart)),
            Service(
                name=name("redis"), node=2, routes={"/": Route(work_ms=0.2)}, stays=True, cores=0.5, memory_gb=0.5
            ),
        ),
    )  # fmt: skip


def _routing() -> Application:
    """Return the vehicle routing problem: a request computes the routes of ten vans, and a picture of them."""
    solve = Route(
        work_ms=30.0,
        calls=(
            Call(service="vrp-optimizer", request_bytes=30_000), Call(service="vrp-plotter", request_bytes=20_000)
        ),
        answer_bytes=60_000,
    )  # fmt: skip
    return Application(
        name="vrp",
        entry="vrp-frontend",
        services=(
            Service(name="vrp-frontend", node=5, routes={"/": solve}, cores=1.0, memory_gb=0.5),
            Service(
                name="vrp-optimizer", node=4, routes={"/": Route(work_ms=150.0, answer_bytes=20_000)},
                cores=4.0, memory_gb=0.5,
            ),
            Service(
                name="vrp-plotter", node=4, routes={"/": Route(work_ms=70.0, answer_bytes=60_000)},
                cores=2.0, memory_gb=0.5,
            ),
        ),
    )  # fmt: skip


def _hub() -> Application:
    """Return the data hub: each event goes through two brokers to a client, and in batches to a database."""
    events = Call(service="hub-broker-0", topic="events", request_bytes=500)
    # The streamer adds technical metadata to each event.
    scope = Call(service="hub-broker-1", topic="scope", request_bytes=800)

    def write(call: Call) -> Call:
        return dataclasses.replace(call, route="/publish")

    def read(call: Call) -> Call:
        return dataclasses.replace(call, route="/fetch", request_bytes=100)

    return Application(
        name="hub",
        entry="hub-ingest",
        services=(
            Service(
                name="hub-ingest", node=1, memory_gb=0.25,
                routes={"/": Route(work_ms=0.3, calls=(write(events),))},
            ),
            Service(
                name="hub-sink", node=1, kind=Kind.READER, reads=read(events), memory_gb=0.25,
                routes={"/": Route(work_ms=0.3, calls=(Call(service="hub-tsdb", route="/write", request_bytes=500),))},
            ),
            Service(
                name="hub-query", node=2, memory_gb=0.25,
                routes={
                    "/": Route(
                        work_ms=0.5, calls=(Call(service="hub-tsdb", route="/read"),), answer_bytes=20_000
                    )
                },
            ),
            Service(
                name="hub-streamer", node=2, kind=Kind.READER, reads=read(events), memory_gb=0.25,
                routes={"/": Route(work_ms=0.3, calls=(write(scope),))},
            ),
            Service(
                name="hub-streaming", node=3, memory_gb=0.25,
                routes={"/stream": Route(work_ms=0.3, calls=(read(scope),), passes_on=True)},
            ),
            Service(
                name="hub-tsdb", node=3, stays=True, cores=0.5, memory_gb=0.25,
                routes={"/write": Route(work_ms=0.5, answer_bytes=100), "/read": Route(answer_bytes=20_000)},
            ),
            *(
                Service(
                    name=f"hub-broker-{number}", node=4 + number, kind=Kind.BROKER, stays=True, cores=0.5,
                    memory_gb=2.0,
                )
                for number in range(3)
            ),
        ),
    )  # fmt: skip


APPLICATIONS = {each.name: each for each in (_boutique(), _routing(), _hub())}
SERVICES = {each.name: each for application in APPLICATIONS.values() for each in application.services}


def service(name: str) -> Service:
    """Return the service of that name. Raises `SettingsError` that lists the known ones."""
    found = SERVICES.get(name)
    if found is None:
        raise errors.SettingsError(f"app: got {name!r}, expected one of {', '.join(sorted(SERVICES))}")
    return found

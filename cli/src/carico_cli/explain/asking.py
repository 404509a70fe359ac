"""Asks the leading scheduler and, for what it no longer knows, the decision stream and the Kubernetes API."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from carico_cli.live import addresses, connection, service_queries
from carico_core.domain import decision, errors, names
from carico_core.runtime.kube import cluster_access
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_local.jobs import job_labels

if TYPE_CHECKING:
    from carico_cli.live import object_events
    from carico_core.domain import pod_telemetry

USER_AGENT = "carico-explain"
ANSWER_MOST_S = 5.0
# A change of leader takes about this long if the old one released its Lease. If it died, the answer is `NoAnswer`.
LEADER_MOST_S = 4.0
LEADER_EVERY_S = 0.5
# Names that are suggested for one that is not known.
NEAREST_MOST = 3
# What rescheduler and agent say of a Pod are details: the rest of the answer does not wait longer for them.
DETAIL_MOST_S = 1.0
# Most rows of an answer, by the scheduler's limit.
LIMIT_MOST = 1000
# How a text begins that says that the Kubernetes API cannot be reached.
SILENT = "the Kubernetes API does not answer"
T = TypeVar("T")


class Bus(service_queries.Bus, Protocol):
    """The bus."""

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]: ...


def run(asking: Callable[["Asker"], Awaitable[T]], at: addresses.Address, environ: Mapping[str, str]) -> T:
    """Connect, and return what `asking` returns."""
    clock = clocks.SystemClock()

    def api() -> "contextlib.AbstractAsyncContextManager[object_events.Api]":
        return connection.api_of(at, clock, environ, name=USER_AGENT)

    return connection.on_bus(at, lambda bus: asking(Asker(bus, at, api, clock)), name=USER_AGENT)


def key(namespace: str | None, name: str) -> tuple[str | None, str]:
    """Return the namespace, or None where neither `-n` nor "namespace/name" gives it, and the name.

    Raises `SettingsError`.
    """
    if "/" in name:
        named, _, name = name.partition("/")
        if namespace not in (None, named):
            raise errors.SettingsError(f"-n: got {namespace!r}, but {named}/{name} names another namespace")
        namespace = named
    if namespace is not None and not names.is_label(namespace):
        raise errors.SettingsError(f"namespace: got {namespace!r}, which is not a valid Kubernetes name")
    if not names.is_subdomain(name):
        meant = name.lower().replace("_", "-")
        hint = f": did you mean {meant}?" if names.is_subdomain(meant) else ""
        raise errors.SettingsError(f"name: got {name!r}, which is not a valid Kubernetes name{hint}")
    return namespace, name


def namespace(at: addresses.Address, environ: Mapping[str, str], given: str | None) -> str:
    """Return the namespace that is meant: the `given` one, else that of the kubeconfig's context."""
    of_context = cluster_access.context_namespace(at.kube.kubeconfig, context=at.kube.context, environ=environ)
    return given or of_context or "default"


class There(NamedTuple):
    """Names in a namespace."""

    pods: list[str]
    jobs: list[str]


class Asker:
    """Questions to one cluster."""

    def __init__(
        self, bus: Bus, at: addresses.Address,
        api: "Callable[[], contextlib.AbstractAsyncContextManager[object_events.Api]]", clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._bus = bus
        self.at = at
        self._api = api
        self.clock = clock

    async def ask(self, verb: str, question: Mapping[str, object]) -> dict[str, Any]:
        """Return the leading scheduler's answer. Raises `NoAnswer`, `Refused`."""
        until_s = self.clock.monotonic_s() + LEADER_MOST_S
        elsewhere = f"`nats service ls` lists the services, `{self.at.carico('doctor')}` shows what is wrong"
        look = self.at.look if self.at.is_local else elsewhere
        while True:
            try:
                return await service_queries.ask(
                    self._bus, self.at, "scheduler", verb, question, within_s=ANSWER_MOST_S,
                    hint=f"none is running, or none leads now; {look}",
                )  # fmt: skip
            except service_queries.NoAnswer:
                if self.clock.monotonic_s() >= until_s:
                    raise
            await asyncio.sleep(LEADER_EVERY_S)

    async def rescheduling(self, namespace: str, pod: str) -> dict[str, Any] | None:
        """Return what the rescheduler says of a Pod; None where none answers, or it does not know the Pod."""
        question = {"namespace": namespace, "pod": pod}
        try:
            answer = await service_queries.ask(
                self._bus, self.at, "rescheduler", "pod.explain", question, within_s=DETAIL_MOST_S, hint=""
            )
        except (service_queries.NoAnswer, service_queries.Refused):
            return None
        return answer if answer["known"] or answer.get("went") else None

    async def loads(self, node: str) -> "pod_telemetry.PodLoads | None":
        """Return what the Pods of a node use, as its agent reports; None where it does not answer."""
        # Imported here: of a Pod that waits, nothing is asked.
        from carico_core.wire import messages as wire

        try:
            subject = subjects.query("agent", "loads.get", node)
            answer = await self._bus.request(subject, b"", timeout_s=DETAIL_MOST_S)
            return wire.decode_loads(answer, subject=subjects.pods(node))
        except (errors.BadName, errors.BusError, errors.MessageError):
            return None

    async def record(self, namespace: str, pod: str) -> decision.Decision | None:
        """Return the newest decision about a Pod in the stream, or None."""
        # Imported here, as what reads Events below: most answers are those of the scheduler alone, and decoding takes a
        # tenth of their time to import.
        from carico_core.wire import messages as wire

        try:
            found = await self._bus.recent_decisions(namespace, pod, 1)
            return wire.decode_decision(found[-1][1], subject=found[-1][0]) if found else None
        except (errors.BusError, errors.MessageError):
            return None

    async def pod(self, namespace: str, pod: str) -> Mapping[str, Any] | str | None:
        """Return the Pod from the API; None where it does not exist; a text where the API does not answer."""
        return await self._get(f"/api/v1/namespaces/{namespace}/pods/{pod}")

    async def events(self, namespace: str, uid: str) -> "object_events.Found | str":
        """Return the Events about an object; a text where the API does not answer, or the user may not list them."""
        from carico_cli.live import object_events

        found = await self._asked(lambda api: object_events.newest(api, namespace, f"involvedObject.uid={uid}"))
        return found or "the namespace is gone"

    async def there(self, namespace: str) -> There:
        """Return the names of the first Pods of a namespace and of their jobs; empty where the API does not answer."""
        found = await self._get(f"/api/v1/namespaces/{namespace}/pods", {"limit": str(LIMIT_MOST)})
        pods = [each["metadata"] for each in found["items"]] if isinstance(found, Mapping) else []
        return There(
            [each["name"] for each in pods], sorted({job_labels.job_of(each) for each in pods} - {job_labels.OTHERS})
        )

    async def has_namespace(self, namespace: str) -> bool:
        """Return False where the API knows no such namespace."""
        return await self._get(f"/api/v1/namespaces/{namespace}") is not None

    async def other_kind(self, namespace: str, name: str) -> str | None:
        """Return "job" or "node" where one has the name of a Pod that was asked for; None where neither has."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        for label in job_labels.JOB_LABELS:
            found = await self._get(path, {"labelSelector": f"{label}={name}", "limit": "1"})
            if isinstance(found, Mapping) and found["items"]:
                return "job"
        return "node" if isinstance(await self._get(f"/api/v1/nodes/{name}"), Mapping) else None

    async def _get(self, path: str, params: Mapping[str, str] | None = None) -> Mapping[str, Any] | str | None:
        """Return the API's object; None where it does not exist; a text where the API does not answer."""

        async def get(api: "object_events.Api") -> Mapping[str, Any]:
            found: Mapping[str, Any] = await api.request("GET", path, params=params)
            return found

        return await self._asked(get)

    async def _asked(self, question: "Callable[[object_events.Api], Awaitable[T]]") -> T | str | None:
        """Return the API's answer; None where the object does not exist; a text where the API does not answer."""
        try:
            async with asyncio.timeout(ANSWER_MOST_S), self._api() as api:
                return await question(api)
        except errors.NotFound:
            return None
        except TimeoutError:
            return SILENT
        except errors.ApiUnavailable as error:
            return f"{SILENT}: {error}"
        except errors.CaricoError as error:
            return f"the Kubernetes API cannot be asked: {error}"

    async def refusal(self, namespace: str, job: str) -> str | None:
        """Return why the API refused Pods of this Job; None where it did not, or the reason is not known."""
        from carico_cli.jobs import refusals

        with contextlib.suppress(errors.CaricoError, TimeoutError):
            async with asyncio.timeout(ANSWER_MOST_S), self._api() as api:
                return await refusals.of_job(api, await refusals.find_job(api, namespace, job))
        return None

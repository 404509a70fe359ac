"""Services that answer on NATS by its services framework, so that `nats service ls|info|stats|ping` see them."""

import contextlib

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.micro.request import Request, ServiceError
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from carico_core.domain import errors
from carico_core.runtime.bus import nats_server, serving
from carico_core.runtime.bus import port as buses
from carico_core.wire import subjects


async def serve(client: Client, spec: buses.ServiceSpec) -> "Handle":
    """Return a running service with one endpoint per verb."""
    metadata = {} if spec.node is None else {"node": spec.node}
    service = Service(
        client,
        ServiceConfig(
            name=spec.name,
            version=spec.version,
            description=spec.description,
            metadata=metadata,
            queue_group=spec.queue,
        ),
    )
    try:
        # Not `add_service`: where that raises, its subscriptions remain, and a retry answers a second time.
        await service.start()
        for verb, answer in spec.endpoints.items():
            subject = subjects.query(spec.short_name, verb, spec.node)
            config = EndpointConfig(name=verb.replace(".", "-"), subject=subject, handler=_handler(answer))
            await service.add_endpoint(config)
    except BaseException:
        await _drop(service)
        raise
    return Handle(service)


class Handle:
    """A running service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def close(self) -> None:
        """Stop answering."""
        try:
            # Draining waits with `wait_for`.
            with nats_server.Cancellable():
                await self._service.stop()
        except NatsError:
            await _drop(self._service)


async def _drop(service: Service) -> None:
    """Stop answering, without waiting for the server; a reconnect renews none of the subscriptions."""
    endpoints = [each._subscription for each in service._endpoints]
    for each in (*endpoints, *service._subscriptions.values()):
        if each is not None:
            with contextlib.suppress(NatsError):
                await each.unsubscribe()
            service._client._remove_sub(each._id)


def _handler(answer: buses.Endpoint):  # type: ignore[no-untyped-def]  # nats.micro has no types of its own
    async def on_request(request: Request) -> None:
        try:
            payload = await answer(request.data)
        except serving.BadQuestion as error:
            # A raised error counts in the service's statistics, an answered one does not: the mistake is the asker's.
            await request.respond_error("400", str(error))
            return
        except errors.CaricoError as error:
            raise ServiceError("400", str(error)) from error
        try:
            await request.respond(payload)
        except MaxPayloadError as error:
            raise ServiceError("413", f"the answer has {len(payload)} bytes, more than NATS delivers") from error

    return on_request

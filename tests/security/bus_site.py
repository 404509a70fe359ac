"""A bus with identities, honest messages on it, and the views by which an attack's effect is seen.

Attackers are the agent of `ATTACKER` and readers. Everyone else is honest, and says nothing while an attack runs: what
is stored or heard then, on a subject that is not the attacker's own, is an effect of the attack.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import pathlib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from carico_auth import arrangements, key_folder
from carico_auth import settings as auth_settings
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles, streams, subjects
from tests.security import raw_client
from tests.tools import waiting
from tests.tools.sites import nats_site, security_site

ATTACKER, VICTIM, QUIET = "node-a", "node-b", "node-c"
# Of agents that are not heard, or not let in, for a while.
FLOODING = FLOODER, LARGE, SMALL = ("flooder", "large", "small")
NODES = (ATTACKER, VICTIM, QUIET, *FLOODING)
# Nothing that is stored may end by its age while its fate is watched.
LEASE_S = 600.0
HONEST = b"honest"
BARRIER = b"barrier-"
BARRIER_POD = ("default", "barrier")
# Where each stream is known to have stored all that came before.
BARRIERS = {
    streams.CAPACITY: subjects.capacity(VICTIM),
    streams.SUBSPACES: subjects.subspace(VICTIM),
    streams.DECISIONS: subjects.decision(*BARRIER_POD),
    streams.CLAIMS: subjects.claim(VICTIM),
    streams.HISTORY: subjects.SUMMARY,
    streams.MODEL_STREAM: streams.MODEL_SUBJECT,
    streams.USAGE_STREAM: streams.usage_subject(0),
}
KIND_STATIC, KIND_CALLOUT = "static", "callout"
# https://github.com/nats-io/nats-server/blob/main/server/errors.json
_NO_STREAM = 10059
_OWNER_INBOX = roles.inbox(roles.Role.OWNER)


class Bus(Protocol):
    """A server, and credentials of each role."""

    kind: str
    auth: security_site.Auth

    @property
    def nats(self) -> nats_site.NatsServer: ...

    def raw(self, role: roles.Role, node: str | None = None) -> raw_client.RawClient:
        """Return a connection of the role, accepted by the server."""
        ...

    def unnamed(self) -> raw_client.RawClient:
        """Return a connection that has shown nothing yet."""
        ...

    @property
    def owner_signer(self) -> nkeys.Signer:
        """The owner's pair of keys, which opens either kind of bus."""
        ...

    def settings(self, role: roles.Role, node: str | None = None) -> buses.BusSettings:
        """Return the settings by which a service of the role connects."""
        ...


class StaticBus:
    """A bus of static nkeys, one for each node's agent."""

    kind = KIND_STATIC

    def __init__(self, root: pathlib.Path, *, nodes: Sequence[str] = NODES) -> None:
        self.keys = key_folder.KeyFolder(root / "keys")
        config = arrangements.static(self.keys, nodes=nodes, tls=None).config
        self.nats = nats_site.NatsServer(root / "nats", extra={**config, **raw_client.PATIENT})
        # Not started: other tests are of a server without it.
        self.auth = security_site.Auth(
            root / "auth.log", "--bus-url", self.nats.url, "--bus-nkey", str(self.keys.path("auth")),
            "--issuer", auth_settings.NO_ISSUER,
        )  # fmt: skip

    def signer(self, role: roles.Role, node: str | None = None) -> nkeys.Signer:
        """Return the pair of keys of the role."""
        return nkeys.read(self.keys.path(_key_name(role, node)))

    @property
    def owner_signer(self) -> nkeys.Signer:
        """The owner's pair of keys."""
        return self.signer(roles.Role.OWNER)

    def unnamed(self) -> raw_client.RawClient:
        """Return a connection that has shown nothing yet."""
        return raw_client.RawClient(self.nats.port)

    def raw(self, role: roles.Role, node: str | None = None) -> raw_client.RawClient:
        """Return a connection of the role, accepted by the server."""
        return self.unnamed().connect(signer=self.signer(role, node))

    def settings(self, role: roles.Role, node: str | None = None) -> buses.BusSettings:
        """Return the settings by which a service of the role connects."""
        path = self.keys.path(_key_name(role, node))
        return buses.BusSettings(url=self.nats.url, nkey=str(path), lease_s=LEASE_S)


class CalloutBus:
    """A bus with TLS whose clients show tokens of Kubernetes."""

    kind = KIND_CALLOUT

    def __init__(self, root: pathlib.Path) -> None:
        self.site = security_site.Site(root, replicas=1, server=raw_client.PATIENT)
        self.nats = self.site.nats
        (self.auth,) = self.site.callouts
        self.tls = ssl.create_default_context(cafile=str(self.site.ca))

    @property
    def owner_signer(self) -> nkeys.Signer:
        """The owner's pair of keys."""
        return nkeys.read(self.site.root / "owner.nk")

    def unnamed(self) -> raw_client.RawClient:
        """Return a connection that has shown nothing yet."""
        return raw_client.RawClient(self.nats.port, tls=self.tls)

    def raw(self, role: roles.Role, node: str | None = None) -> raw_client.RawClient:
        """Return a connection of the role, accepted by the server."""
        if role is roles.Role.AUTH:
            return self.unnamed().connect(signer=nkeys.read(self.site.root / "auth.nk"))
        token = self.site.tokens.token(security_site.ACCOUNTS[role], node=node)
        return self.unnamed().connect(token=token)

    def settings(self, role: roles.Role, node: str | None = None) -> buses.BusSettings:
        """Return the settings by which a service of the role connects."""
        return dataclasses.replace(self.site.role_settings(role, node), lease_s=LEASE_S)


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """A message that an honest client received."""

    by: str
    subject: str
    payload: bytes


class Honest:
    """The honest side of a bus: it stores a message of each kind, listens, and compares before and after.

    What must not change: the configuration and the creation of every stream and consumer, and every stored message but
    those on the attacker's own subjects. What must not be heard: anything on a subject that the attacker may not
    publish to.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._numbers = itertools.count()
        self._stack = contextlib.ExitStack()
        asyncio.run(_store_honest_messages(bus))
        self._owner = self._join(roles.Role.OWNER)
        self._speakers = {
            streams.CAPACITY: self._join(roles.Role.AGENT, VICTIM),
            streams.DECISIONS: self._join(roles.Role.SCHEDULER),
            streams.MODEL_STREAM: self._join(roles.Role.AGGREGATOR),
        }
        self._speakers[streams.SUBSPACES] = self._speakers[streams.CAPACITY]
        self._speakers[streams.USAGE_STREAM] = self._speakers[streams.MODEL_STREAM]
        self._speakers[streams.CLAIMS] = self._speakers[streams.HISTORY] = self._speakers[streams.DECISIONS]
        self._listeners: dict[str, raw_client.RawClient] = {}
        for name, role, node in (
            ("scheduler", roles.Role.SCHEDULER, None), ("aggregator", roles.Role.AGGREGATOR, None),
            ("agent of the victim", roles.Role.AGENT, VICTIM), ("owner", roles.Role.OWNER, None),
        ):  # fmt: skip
            self._listeners[name] = listener = self._join(role, node)
            for subject in roles.permissions(role, node).subscribe:
                # Advisories and answers of what the owner itself asks.
                if role is not roles.Role.OWNER or subject.startswith(f"{subjects.PREFIX}."):
                    listener.subscribe(subject)
            assert listener.refused() == [], name
        self._before = self._settled_view()
        self.heard()

    def close(self) -> None:
        """Disconnect everyone."""
        self._stack.close()

    def heard(self) -> list[Heard]:
        """Return what the honest clients have received since the last call, without what they said themselves."""
        found = [
            Heard(by=name, subject=message.subject, payload=message.payload)
            for name, listener in self._listeners.items()
            for message in listener.taken()
        ]
        return [each for each in found if not each.payload.startswith(BARRIER)]

    def check(self, *, own: Sequence[str]) -> None:
        """Fail where an attack has had an effect. `own`: the subjects that the attacker may publish to."""
        after = self._settled_view()
        ours, theirs = _without(self._before, own), _without(after, own)
        self._before = after
        assert theirs == ours, f"changed by an attack: {_difference(ours, theirs)}"
        foreign = [each for each in self.heard() if not roles.allows(tuple(own), each.subject)]
        assert not foreign, f"heard from an attack: {foreign[:5]}"

    def stored(self, stream: str) -> dict[str, list[bytes]]:
        """Return the payloads that a stream holds, by subject."""
        self._barrier()
        found: dict[str, list[bytes]] = {}
        for message in self._messages(stream):
            found.setdefault(message["subject"], []).append(message["payload"])
        return found

    def ask(self, subject: str, body: object = None) -> Any:
        """Return the answer of JetStream's API to the owner."""
        payload = b"" if body is None else json.dumps(body).encode()
        return json.loads(self._owner.request(subject, payload, inbox=_OWNER_INBOX).payload)

    def _join(self, role: roles.Role, node: str | None = None) -> raw_client.RawClient:
        return self._stack.enter_context(self._bus.raw(role, node))

    def _settled_view(self) -> dict[str, Any]:
        self._barrier()
        return self._view()

    def _barrier(self) -> None:
        """Return once every stream holds a new message of ours: it has then processed all that came before."""
        said = BARRIER + str(next(self._numbers)).encode()
        for stream, speaker in self._speakers.items():
            speaker.publish(BARRIERS[stream], said)
            speaker.settle()
        for stream in self._speakers:
            waiting.until_now(lambda stream=stream: self._last(stream) == said, what=lambda: self._view())  # type: ignore[misc]

    def _last(self, stream: str) -> bytes:
        answer = self.ask(f"$JS.API.STREAM.MSG.GET.{stream}", {"last_by_subj": BARRIERS[stream]})
        assert answer.get("error", {}).get("err_code") != _NO_STREAM, f"{stream} is gone"
        return raw_client.decoded(answer.get("message", {}).get("data", ""))

    def _view(self) -> dict[str, Any]:
        names = self.ask("$JS.API.STREAM.NAMES").get("streams") or []
        return {name: self._stream(name) for name in sorted(names)}

    def _stream(self, name: str) -> dict[str, Any]:
        info = self.ask(f"$JS.API.STREAM.INFO.{name}")
        consumers = self.ask(f"$JS.API.CONSUMER.LIST.{name}").get("consumers") or []
        return {
            "created": info.get("created"),
            "config": info.get("config"),
            "consumers": [{key: each[key] for key in ("name", "created", "config")} for each in consumers],
            "messages": sorted(
                {(each["subject"], each["headers"], _plain(each["payload"])) for each in self._messages(name)}
            ),
        }

    def _messages(self, stream: str) -> Iterator[Mapping[str, Any]]:
        seq = 1
        while True:
            answer = self.ask(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": ">"})
            message = answer.get("message")
            if message is None:
                return
            yield {
                "subject": message["subject"],
                "headers": raw_client.decoded(message.get("hdrs", "")),
                "payload": raw_client.decoded(message.get("data", "")),
            }
            seq = message["seq"] + 1


@contextlib.contextmanager
def static(root: pathlib.Path, *, nodes: Sequence[str] = NODES) -> Iterator[StaticBus]:
    """A bus of static keys, ended at the end."""
    bus = StaticBus(root, nodes=nodes)
    bus.nats.start()
    try:
        yield bus
    finally:
        bus.auth.kill()
        bus.nats.kill()


@contextlib.contextmanager
def callout(root: pathlib.Path) -> Iterator[CalloutBus]:
    """A bus with the auth callout, ended at the end."""
    bus = CalloutBus(root)
    try:
        bus.site.start()
        yield bus
    finally:
        bus.site.end()


RUNNING: Mapping[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[Bus]]] = {
    KIND_STATIC: static,
    KIND_CALLOUT: callout,
}


async def _store_honest_messages(bus: Bus) -> None:
    """Make the streams, and store a message of each kind, by the services' own client."""
    async with contextlib.AsyncExitStack() as stack:

        async def join(role: roles.Role, node: str | None = None) -> nats_bus.NatsBus:
            owns = role in (roles.Role.AGGREGATOR, roles.Role.SCHEDULER)
            found = await nats_bus.connect(
                bus.settings(role, node), name="honest", clock=clocks.SystemClock(), owns_streams=owns,
                inbox=roles.inbox(role),
            )  # fmt: skip
            stack.push_async_callback(found.close)
            return found

        aggregator, scheduler = await join(roles.Role.AGGREGATOR), await join(roles.Role.SCHEDULER)
        for node in (VICTIM, QUIET):
            agent = await join(roles.Role.AGENT, node)
            await agent.publish(subjects.capacity(node), HONEST)
            await agent.publish(subjects.subspace(node), HONEST)
        await scheduler.publish(subjects.decision("default", "quiet"), HONEST)
        await scheduler.publish(subjects.SUMMARY, HONEST)
        await aggregator.put_model(HONEST)
        await aggregator.put_usage(0, HONEST)


def _key_name(role: roles.Role, node: str | None) -> str:
    return role.value if node is None else f"{role.value}-{node}"


def _plain(payload: bytes) -> bytes:
    return BARRIER if payload.startswith(BARRIER) else payload


def _without(view: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """Return the view without messages on subjects of the attacker's own."""
    return {
        name: {**stream, "messages": [each for each in stream["messages"] if not roles.allows(tuple(own), each[0])]}
        for name, stream in view.items()
    }


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    found = [f"stream {name} is gone" for name in before.keys() - after.keys()]
    found += [f"stream {name} is new" for name in after.keys() - before.keys()]
    for name in before.keys() & after.keys():
        found += [
            f"{name} {part}: {before[name][part]!r} -> {after[name][part]!r}"[:600]
            for part in before[name]
            if before[name][part] != after[name][part]
        ]
    return found

"""Several schedulers as processes on one site, each with its own way to the API and its own wire to NATS."""

import asyncio
import collections
import contextlib
import pathlib
from collections.abc import AsyncIterator

import aiohttp

from carico_core.runtime.kube import api_actions
from carico_core.wire.kubernetes import lease as kubernetes_lease
from carico_local.cluster import free_ports
from tests.tools import service_process, tcp_proxy, waiting
from tests.tools.api import api_proxy
from tests.tools.sites import scheduler_site


class Member:
    """One scheduler, with its own way to the API and its own wire to NATS."""

    def __init__(
        self, site: scheduler_site.Site, name: str, *, proxy: api_proxy.Proxy, wire: tcp_proxy.Proxy, flags: list[str]
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.wire = wire
        self.http_port = free_ports.choose_one()
        kubeconfig = site.root / f"{name}.kubeconfig"
        site.write_kubeconfig(kubeconfig, proxy.url)
        bus_url = f"nats://127.0.0.1:{wire.port}"
        options = ["--bus-url", bus_url, "--kubeconfig", str(kubeconfig), "--http-port", str(self.http_port)]
        options += ["--leader-identity", name, *flags]
        self.process = service_process.start(site.root / f"{name}.log", "carico_scheduler", *options)

    async def get(self, path: str) -> str:
        """What the health server answers; empty where it does not."""
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(self._url(path)) as answer:
                return await answer.text()
        return ""

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http_port}{path}"


class Team:
    """Schedulers on one site."""

    def __init__(self, site: scheduler_site.Site, members: list[Member]) -> None:
        self.site = site
        self.members = {each.name: each for each in members}

    async def lease(self) -> kubernetes_lease.Lease | None:
        """The Lease as it is."""
        return await api_actions.get_lease(self.site.client, namespace="kube-system", name="carico-scheduler")

    async def leader(self, but: str = "") -> Member:
        """Who leads, once somebody does that is not `but`."""
        async with asyncio.timeout(waiting.WAIT_S):
            while True:
                found = await self.lease()
                if found is not None and found.holder not in ("", but):
                    return self.members[found.holder]
                await asyncio.sleep(0.05)

    async def first_bind_s(self, member: Member, after_s: float) -> float:
        """When `member` sent its first bind after a moment (monotonic)."""
        await waiting.until(lambda: any(each.sent_s > after_s for each in member.proxy.binds))
        return next(each.sent_s for each in member.proxy.binds if each.sent_s > after_s)

    async def all_warm(self) -> None:
        """Once every member is ready: leading or standing by."""
        async with asyncio.timeout(waiting.WAIT_S):
            for each in self.members.values():
                while not (await each.get("/readyz")).startswith("ok"):
                    await asyncio.sleep(0.05)

    async def all_share(self) -> None:
        """Once every member knows that it shares the work with all others."""
        expected = f"carico_scheduler_members {len(self.members)}.0"
        async with asyncio.timeout(waiting.WAIT_S):
            for each in self.members.values():
                while expected not in await each.get("/metrics"):
                    await asyncio.sleep(0.05)

    def check(self, pods: int) -> None:
        """Each Pod bound once by the API's own answers, none lost, no node above its room."""
        accepted = collections.Counter(pod for each in self.members.values() for pod in each.proxy.bound)
        assert len(accepted) == pods
        assert set(accepted.values()) == {1}
        self.site.check(pods)


@contextlib.asynccontextmanager
async def team(root: pathlib.Path, names: str, flags: list[str], *, room: float = 10.0) -> AsyncIterator[Team]:
    """So many schedulers on a site, all warm."""
    async with scheduler_site.running(root, room=room) as site, contextlib.AsyncExitStack() as stack:
        members: list[Member] = []
        for name in names:
            way = api_proxy.Proxy(f"http://127.0.0.1:{site.api_port}", token=site.token)
            proxy = await stack.enter_async_context(way.running())
            wire = await stack.enter_async_context(tcp_proxy.Proxy(site.nats.port).running())
            members.append(Member(site, name, proxy=proxy, wire=wire, flags=flags))
            stack.callback(service_process.end, members[-1].process)
        made = Team(site, members)
        await made.all_warm()
        yield made

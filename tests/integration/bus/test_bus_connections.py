"""The connections that carico-auth lists and ends, on several servers of one cluster."""

import asyncio
import contextlib
import json
import pathlib

from carico_auth import connections, instruments, server_config
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts, roles
from carico_local.cluster import free_ports
from tests.tools import waiting
from tests.tools.sites import nats_site, security_site


async def test_the_connections_of_every_server_are_listed_and_ended_by_one_client(tmp_path: pathlib.Path) -> None:
    config = server_config.callout(
        issuer=security_site.write_seed(tmp_path / "issuer.nk", nkeys.Kind.ACCOUNT),
        auth_keys=[security_site.write_seed(tmp_path / "auth.nk", nkeys.Kind.USER)],
        xkey=None,
        owner_keys=[security_site.write_seed(tmp_path / "owner.nk", nkeys.Kind.USER)],
    )
    routes = [free_ports.choose_one() for _ in range(2)]
    with contextlib.ExitStack() as stack:
        servers = []
        for number, port in enumerate(routes):
            cluster = {"name": "c", "listen": f"127.0.0.1:{port}", "routes": [f"nats://127.0.0.1:{p}" for p in routes]}
            extra = {**config, "server_name": f"n{number}", "cluster": {**cluster, "no_advertise": True}}
            servers.append(nats_site.NatsServer(tmp_path / f"n{number}", extra=extra))
            stack.callback(servers[-1].kill)
            servers[-1].start()
        await _check(servers, tmp_path)


async def _check(servers: list[nats_site.NatsServer], keys: pathlib.Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        owners = [
            await stack.enter_async_context(
                security_site.raw(buses.BusSettings(url=server.url, nkey=str(keys / "owner.nk")))
            )
            for server in servers
        ]
        settings = buses.BusSettings(url=servers[0].url, nkey=str(keys / "auth.nk"))
        auth = await stack.enter_async_context(security_site.connected(settings, role=roles.Role.AUTH))
        found: dict[str, list[int]] = {}
        async with asyncio.timeout(waiting.WAIT_S):
            # Until the servers have found each other.
            while len(found) < len(servers):
                question = json.dumps({"auth": True, "limit": connections.PAGE, "offset": 0}).encode()
                answers = await auth.request_all(accounts.connections(accounts.Account.CORE), question, within_s=0.5)
                found = {
                    page["server"]["id"]: [each["cid"] for each in page["data"]["connections"]]
                    for page in map(json.loads, answers)
                }
                pages = [connections.parse_page(answer) for answer in answers]
                assert not any(is_cut for _, is_cut in pages)
                assert all(not each.client.uid for listed, _ in pages for each in listed), "none is of a Pod"
        assert [len(clients) for clients in found.values()] == [1, 1]
        for server, (client,) in found.items():
            subject = accounts.KICK_SUBJECTS.replace("*", server)
            await auth.request(subject, json.dumps({"cid": client}).encode(), timeout_s=waiting.WAIT_S)
        await waiting.until(lambda: all(owner.client.is_closed for owner in owners))
        # What they have sent is known after their end.
        clock = clocks.SystemClock()
        counted = instruments.Instruments(metric.Metrics("auth"), clock=clock)
        looking = connections.Connections(counted, rules={}, clock=clock)
        ended = [each for each in await looking._listed(auth, accounts.Account.CORE) if not each.is_open]
        assert {(each.server_id, each.client_id) for each in ended} == {
            (server, client) for server, (client,) in found.items()
        }
        assert all(each.client.identity and each.age_s > 0.0 and each.address == "127.0.0.1" for each in ended)

"""What the extender takes over HTTP, from whom, and how it answers."""

import asyncio
import contextlib
import json
import pathlib
import ssl

import aiohttp
import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.control_plane import certificates
from carico_scheduler import settings as setting
from carico_scheduler.extender import extender_settings, messages, server, service
from tests.unit.scheduler import objects
from tests.unit.scheduler.extender import extender_desk


def serving(
    desk: extender_desk.Desk, wanted: extender_settings.ExtenderSettings
) -> contextlib.AbstractAsyncContextManager[int]:
    return server.serving(desk.extender, wanted, clock=desk.clock, on_answer=lambda *_: None)


@pytest.mark.parametrize("kind", ["names", "nodes"])
def test_requests_of_a_real_kube_scheduler_are_answered_in_kind(kind: str) -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        for name, capacity in (("a", 3.0), ("b", 0.5), ("c", 2.0)):
            desk.node(f"node-{name}-{kind}", capacity)
        payload = (extender_desk.RECORDED / f"filter-{kind}.json").read_bytes()
        asked = json.loads(payload)
        answer = json.loads(await desk.extender.filter(payload))
        assert answer["Error"] == ""
        assert answer["FailedNodes"] == {f"node-b-{kind}": "CARICO: at capacity"}
        if kind == "names":
            assert answer["NodeNames"] == [name for name in asked["NodeNames"] if name != "node-b-names"]
            assert "Nodes" not in answer
        else:
            kept = [each for each in asked["Nodes"]["items"] if each["metadata"]["name"] != "node-b-nodes"]
            assert answer["Nodes"]["items"] == kept, "whole and in their order"
        scores = json.loads(
            await desk.extender.prioritize((extender_desk.RECORDED / f"prioritize-{kind}.json").read_bytes())
        )
        assert {each["Host"]: each["Score"] for each in scores} == {f"node-a-{kind}": 10, f"node-c-{kind}": 6}

    objects.run_fast(main())


def test_a_recorded_bind_is_read() -> None:
    found = messages.decode_bind_args((extender_desk.RECORDED / "bind-names.json").read_bytes())
    assert (found.namespace, found.name, found.node) == ("recorded-names", "pi-0", "node-a-names")
    assert len(found.uid) == 36


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", b'{"Pod": {}}', b'{"Pod": null, "NodeNames": []}', b'{"Pod": {"metadata": 1}, "Nodes": 2}'],
)
def test_what_is_not_of_the_protocol_is_refused(payload: bytes) -> None:
    with pytest.raises(messages.BadRequest):
        messages.decode_args(payload)
    with pytest.raises(messages.BadRequest):
        messages.decode_bind_args(payload)


async def test_the_server_says_who_may_ask_what() -> None:
    desk = extender_desk.Desk()
    desk.node("node-a-names", 3.0)
    answers: list[tuple[str, int]] = []
    async with server.serving(
        desk.extender, extender_settings.ExtenderSettings(enabled=True, port=0), clock=desk.clock,
        on_answer=lambda verb, status, took_s: answers.append((verb, status)),
    ) as port, aiohttp.ClientSession() as session:  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        payload = (extender_desk.RECORDED / "filter-names.json").read_bytes()
        async with session.post(f"{url}/filter", data=payload) as answer:
            assert (await answer.json())["NodeNames"] == ["node-a-names"]
        async with session.post(f"{url}/filter", data=b"nonsense") as answer:
            assert answer.status == 400
            assert "expected JSON" in await answer.text()
        desk.term = None
        for verb in ("filter", "prioritize", "bind"):
            async with session.post(f"{url}/{verb}", data=payload) as answer:
                assert answer.status == 503
                assert "standby" in await answer.text()
        async with session.get(f"{url}/filter") as answer:
            assert answer.status == 405
    assert answers == [("filter", 200), ("filter", 400), ("filter", 503), ("prioritize", 503), ("bind", 503)]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", ""])
async def test_a_web_page_on_the_same_machine_binds_no_pod(origin: str) -> None:
    """Also where its own name resolves to this address (DNS rebinding): the browser states the page's origin."""
    desk = extender_desk.Desk()
    desk.node("node-a-names", 3.0)
    wanted = extender_settings.ExtenderSettings(enabled=True, port=0)
    # Of a type that browsers send to other sites without asking first.
    headers = {"Origin": origin, "Content-Type": "text/plain"}
    async with serving(desk, wanted) as port, aiohttp.ClientSession() as session:
        for verb in server.verbs(desk.extender):
            payload = (extender_desk.RECORDED / f"{verb}-names.json").read_bytes()
            async with session.post(f"http://127.0.0.1:{port}/{verb}", data=payload, headers=headers) as answer:
                assert answer.status == 403
    assert len(desk.extender.holds) == 0


async def test_a_port_in_use_is_one_line() -> None:
    desk = extender_desk.Desk()
    wanted = extender_settings.ExtenderSettings(enabled=True, port=0)
    async with serving(desk, wanted) as port:
        taken = extender_settings.ExtenderSettings(enabled=True, port=port)
        with pytest.raises(errors.EnvironmentUnfit, match="give --extender-port another port"):
            async with serving(desk, taken):
                pass


async def test_what_is_no_request_is_not_logged_and_connections_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MOST", 3)
    desk = extender_desk.Desk()
    desk.node("node-a-names", 3.0)
    async with serving(desk, extender_settings.ExtenderSettings(enabled=True, port=0)) as port:
        for noise in (
            b"nonsense\r\n\r\n",
            b"POST /filter HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"\0" * 100 + b"\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise)
            assert b"400" in await reader.readline()
            writer.close()
        assert caplog.records == []
        # Another address takes the oldest place of one that has all.
        idle = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(6)]
        payload = (extender_desk.RECORDED / "filter-names.json").read_bytes()
        async with aiohttp.ClientSession() as session, session.post(
            f"http://127.0.0.1:{port}/filter", data=payload
        ) as answer:  # fmt: skip
            assert answer.status == 200
        assert await idle[0][0].read() == b""
        assert await idle[5][0].read() == b"", "it was never admitted"
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--extender", "--extender-host", "0.0.0.0"), "any client could bind Pods"),
        (("--extender", "--extender-tls-cert", "a"), "expected both"),
        (("--extender", "--extender-tls-client-ca", "a"), "expected both"),
        (("--extender-hold-s", "0"), "--extender-hold-s: got '0'"),
    ],
)
def test_settings_that_would_open_it_to_anybody_are_refused(argv: tuple[str, ...], says: str) -> None:
    with pytest.raises(errors.SettingsError, match=says):
        settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")


def test_one_that_stands_by_refuses() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.term = None
        with pytest.raises(service.NotServing):
            await desk.extender.filter((extender_desk.RECORDED / "filter-names.json").read_bytes())

    objects.run_fast(main())


async def test_over_tls_only_clients_of_the_authority_are_answered(tmp_path: pathlib.Path) -> None:
    ours = certificates.Authority(directory=tmp_path / "ours", environ=settings.environment())
    foreign = certificates.Authority(directory=tmp_path / "foreign", environ=settings.environment())
    ours.ensure("ca")
    foreign.ensure("ca")
    pair = ours.issue("extender", user="extender", hosts=["127.0.0.1"])
    desk = extender_desk.Desk()
    desk.node("node-a-names", 3.0)
    wanted = extender_settings.ExtenderSettings(
        enabled=True, port=0, tls_cert=str(pair.certificate), tls_key=str(pair.key),
        tls_client_ca=str(ours.pair.certificate),
    )  # fmt: skip
    payload = (extender_desk.RECORDED / "filter-names.json").read_bytes()

    async def ask(client: certificates.KeyPair | None, port: int) -> int:
        tls = ssl.create_default_context(cafile=str(ours.pair.certificate))
        if client is not None:
            tls.load_cert_chain(client.certificate, client.key)
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{port}/filter"
            async with session.post(url, data=payload, ssl=tls) as answer:
                return answer.status

    async with serving(desk, wanted) as port:
        assert await ask(ours.issue("kube-scheduler", user="system:kube-scheduler"), port) == 200
        for stranger in (None, foreign.issue("stranger", user="system:kube-scheduler")):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await ask(stranger, port)
    broken = extender_settings.ExtenderSettings(enabled=True, port=0, tls_cert="/nowhere", tls_key="/nowhere")
    with pytest.raises(errors.SettingsError, match="cannot be read"):
        async with serving(desk, broken):
            pass

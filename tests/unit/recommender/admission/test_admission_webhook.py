"""The webhook over TLS: answers, a certificate that is replaced while it listens, and one that does not fit."""

import asyncio
import pathlib
import ssl

import aiohttp
import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import memory_kube
from carico_core.runtime.observe import logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_recommender import instruments
from carico_recommender import settings as setting
from carico_recommender.admission import certificates, registration, webhook
from tests.integration import security_site
from tests.unit.recommender import learnt
from tests.unit.recommender.admission import test_admission_review as reviews

NAME = "carico-recommender.carico.svc"
CONFIGURATIONS = "mutatingwebhookconfigurations"


def certificate(folder: pathlib.Path, *, name: str = NAME) -> certificates.Certificate:
    return certificates.Certificate(
        cert=str(folder / "tls.crt"), key=str(folder / "tls.key"), ca=str(folder / "ca.crt"), name=name
    )


async def post(port: int, authority: bytes, body: bytes) -> tuple[int, bytes]:
    """Ask as the API server does: by the service's name, with the authority of the configuration."""
    context = ssl.create_default_context(cadata=authority.decode())
    url = f"https://127.0.0.1:{port}{webhook.PATH}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, ssl=context, server_hostname=NAME) as response,
    ):
        return response.status, await response.read()


async def test_reviews_are_answered_over_tls_also_with_a_new_certificate(tmp_path: pathlib.Path) -> None:
    folder = security_site.make_certificates(tmp_path / "tls", NAME)
    used = certificate(folder)
    assert used.read()
    assert not used.read()
    series = metrics.Metrics("recommender")
    counted = instruments.Instruments(series)
    found = learnt.recommended()
    handler = webhook.Webhook({found.name: found}.get, counted, clock=clocks.SystemClock())
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": reviews.pod()}})
    async with webhook.listening(handler, used, host="127.0.0.1", port=0) as port:
        status, answered = await post(port, used.authority, body)
        assert status == 200
        assert "patch" in orjson.loads(answered)["response"]
        assert (await post(port, used.authority, b"{}"))[0] == 400
        before = used.authority
        # Another authority: what the API server trusts and what is shown change together.
        (folder / "ca.key").unlink()
        security_site.make_certificates(folder, NAME, days=2)
        assert used.read()
        assert used.authority != before
        assert (await post(port, used.authority, body))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(port, before, body)
    assert series.value("reviews_total", {"result": "set"}) == 2.0
    assert series.value("reviews_total", {"result": "no_review"}) == 1.0


def test_how_long_it_is_valid_is_exported(tmp_path: pathlib.Path) -> None:
    used = certificate(security_site.make_certificates(tmp_path, NAME, days=30))
    series = metrics.Metrics("recommender")
    now_ns = clocks.SystemClock().wall_ns()
    instruments.Instruments(series).read_certificate(lambda: certificates.left_s(used, now_ns))
    assert series.value("certificate_left_seconds") is None
    used.read()
    left_s = series.value("certificate_left_seconds")
    assert left_s is not None
    assert 29.9 * 86_400 < left_s < 30.1 * 86_400


@pytest.mark.parametrize("spoil", ["name", "authority", "key", "gone"])
def test_a_certificate_that_the_api_server_would_refuse_is_named(tmp_path: pathlib.Path, spoil: str) -> None:
    folder = security_site.make_certificates(tmp_path / "a", NAME)
    other = security_site.make_certificates(tmp_path / "b", NAME)
    match spoil:
        case "authority":
            (folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
        case "key":
            (folder / "tls.key").write_bytes((other / "tls.key").read_bytes())
        case "gone":
            (folder / "tls.crt").unlink()
    used = certificate(folder, name="another.carico.svc" if spoil == "name" else NAME)
    with pytest.raises(errors.SettingsError, match=r"--admission-cert .* expected PEM files of a certificate for"):
        used.read()
    assert used.authority == b""


async def test_the_authority_is_written_where_another_is(tmp_path: pathlib.Path) -> None:
    kube = memory_kube.MemoryKube()
    kept = registration.Registration(kube, name="carico-recommender")
    assert not await kept.keep(b"authority")
    assert kept.trouble is not None
    hook = {"name": "requests.carico.dev", "clientConfig": {"service": {"name": "carico-recommender"}}}
    kube.objects.create(CONFIGURATIONS, {"metadata": {"name": "carico-recommender"}, "webhooks": [hook]}, "test")
    assert await kept.keep(b"authority")
    found = kube.objects.get(CONFIGURATIONS, ("", "carico-recommender"), "test")
    assert found["webhooks"][0]["clientConfig"]["caBundle"] == "YXV0aG9yaXR5"
    assert not await kept.keep(b"authority")
    assert kept.trouble is None


async def test_a_certificate_that_breaks_later_leaves_the_one_in_use(tmp_path: pathlib.Path) -> None:
    folder = security_site.make_certificates(tmp_path, NAME)
    used = certificate(folder)
    used.read()
    authority = used.authority
    (folder / "tls.key").write_text("half written")
    kube = memory_kube.MemoryKube()
    looking = asyncio.create_task(
        webhook.look_forever(
            used, registration.Registration(kube, name="x"),
            line=logs.RateLimited(logs.get("test"), clock=clocks.FakeClock()),
        )
    )  # fmt: skip
    while not kube.requests:
        await asyncio.sleep(0)
    looking.cancel()
    assert used.authority == authority


def test_a_webhook_without_a_certificate_is_refused() -> None:
    with pytest.raises(errors.SettingsError, match="--admission-port 8443: got no --admission-cert, --admission-key"):
        settings.load(
            setting.RecommenderSettings, prefix=setting.PREFIX, argv=("--admission-port", "8443"), environ={},
            program=setting.PROGRAM,
        )  # fmt: skip

"""Who may use the API: what a web page, another user of the machine, or a guest without the token gets."""

import json
import os
import pathlib
import stat
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import test_utils, web

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import api_client, cluster_access
from carico_core.runtime.process import clock as clocks
from carico_local.api import access, cluster
from carico_local.api.http import server
from carico_local.api.storage import store
from carico_local.cluster import folders, machine
from carico_local.cluster import plan as plans
from carico_local.cluster.services import control_planes as planes
from tests.contract.kubernetes import control_planes, shapes

TOKEN = "a-token-of-this-test"
PODS = "/api/v1/namespaces/default/pods"
HOLDER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
POD = json.dumps(shapes.pod("page")).encode()
Client = test_utils.TestClient[web.Request, web.Application]


@pytest.fixture
async def client(tmp_path: pathlib.Path) -> AsyncIterator[Client]:
    kept = store.Store(tmp_path)
    app = server.build(cluster.assemble(kept, clocks.FakeClock()), token=TOKEN, hosts=("api",))
    # aiohttp would add a Content-Type of its own.
    async with test_utils.TestClient(test_utils.TestServer(app), skip_auto_headers=("Content-Type",)) as made:
        yield made
    kept.close()


async def refused(
    client: Client, headers: dict[str, str], *, method: str = "POST", path: str = PODS
) -> tuple[int, str]:
    """Code and message of the Status that answers."""
    body = POD if method == "POST" else None
    async with client.request(method, path, data=body, headers=headers) as answer:
        said = await answer.json()
    assert said["kind"] == "Status", said
    assert said["code"] == answer.status
    return answer.status, said["message"]


async def pods(client: Client) -> list[str]:
    async with client.get(PODS, headers=HOLDER) as answer:
        return [pod["metadata"]["name"] for pod in (await answer.json())["items"]]


@pytest.mark.parametrize(
    "authorization",
    ["", f"Bearer {TOKEN}x", TOKEN, "Bearer ", "Basic ", aiohttp.encode_basic_auth("carico", "x")],
)
@pytest.mark.parametrize(("method", "path"), [("POST", PODS), ("GET", "/api/v1/secrets"), ("GET", "/openapi/v2")])
async def test_without_the_token_nothing_is_read_or_written(
    client: Client, authorization: str, method: str, path: str
) -> None:
    code, message = await refused(client, {**JSON, "Authorization": authorization}, method=method, path=path)
    assert code == 401
    assert "carico env" in message
    assert await pods(client) == []


async def test_the_token_counts_in_a_url_too(client: Client) -> None:
    """As kubectl sends it over plain HTTP."""
    given = {"Authorization": aiohttp.encode_basic_auth("carico", TOKEN)}
    async with client.get(PODS, headers=given) as answer:
        assert answer.status == 200


async def test_health_needs_no_token(client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        async with client.get(path) as answer:
            assert answer.status == 200
    code, _ = await refused(client, {}, method="GET", path="/healthz/../api/v1/secrets")
    assert code == 401


async def test_a_body_without_a_content_type_is_refused(client: Client) -> None:
    code, message = await refused(client, HOLDER)
    assert code == 415
    assert "Content-Type" in message
    assert await pods(client) == []


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/octet-stream", "*/*"],
)
async def test_a_body_is_json_only_where_it_says_so(client: Client, kind: str) -> None:
    code, message = await refused(client, {**HOLDER, "Content-Type": kind})
    assert code == 415
    assert "application/json" in message
    assert await pods(client) == []


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1.evil.example", "null", "http://localhost:3000", "file://"]
)
async def test_what_a_page_of_another_site_sends_is_refused(client: Client, origin: str) -> None:
    code, message = await refused(client, {**HOLDER, **JSON, "Origin": origin})
    assert code == 403
    assert origin in message
    assert await pods(client) == []


async def test_a_preflight_request_of_a_browser_is_refused(client: Client) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    async with client.options(PODS, headers=asked) as answer:
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6443", "localhost.evil.example", "127.0.0.1:a", ""])
async def test_another_name_that_resolves_here_is_refused(client: Client, host: str) -> None:
    """DNS rebinding: the page's own origin, so that the browser reads the answers and adds what headers it likes."""
    code, message = await refused(client, {**HOLDER, **JSON, "Host": host, "Origin": f"http://{host}"})
    assert code == 403
    assert "--host-names" in message
    assert await pods(client) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:6443", "[::1]:1", "[::1]", "api:6443"])
async def test_own_names_are_let_in(client: Client, host: str) -> None:
    async with client.post(PODS, data=POD, headers={**HOLDER, **JSON, "Host": host}) as answer:
        assert answer.status == 201


def test_token_and_kubeconfig_are_their_users_alone(tmp_path: pathlib.Path) -> None:
    before = os.umask(0)
    try:
        with control_planes.embedded(tmp_path) as api:
            assert api.request("GET", "/api/v1/pods").code == 200
            token = (tmp_path / "data" / "token").read_text()
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data" / "token", api.kubeconfig)]
            assert modes == [0o600, 0o600]
    finally:
        os.umask(before)
    assert len(token) >= 32
    assert token not in (tmp_path / "log").read_text()


def test_each_cluster_has_a_token_of_its_own_and_keeps_it(tmp_path: pathlib.Path) -> None:
    one, other = (access.obtain_token(tmp_path / name / "token") for name in ("one", "other"))
    assert one != other
    # Such as an archive or a copy leaves it.
    (tmp_path / "one" / "token").chmod(0o644)
    assert access.obtain_token(tmp_path / "one" / "token") == one
    assert stat.S_IMODE((tmp_path / "one" / "token").stat().st_mode) == 0o600


def test_a_kubeconfig_of_an_older_version_is_replaced(tmp_path: pathlib.Path) -> None:
    here = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
    plan = plans.make_plan(plans.Options(name="x", nodes=1), here)
    paths = folders.Paths(tmp_path / plan.name)
    paths.root.mkdir()
    paths.kubeconfig.write_text("{}")
    paths.kubeconfig.chmod(0o644)
    embedded = planes.Embedded(plan=plan, port=4711, paths=paths)
    embedded.write_configuration()
    assert stat.S_IMODE(paths.kubeconfig.stat().st_mode) == 0o600
    written = json.loads(paths.kubeconfig.read_text())["users"][0]["user"]["token"]
    (service,) = embedded.services({})
    argv = list(service.command.argv)
    assert written == access.obtain_token(pathlib.Path(argv[argv.index("--token-file") + 1]))
    # Command lines are everybody's to read.
    assert not any(written in word for word in argv)


def test_a_written_kubeconfig_leads_to_the_api_with_the_token(tmp_path: pathlib.Path) -> None:
    access.write_kubeconfig(tmp_path / "k", name="c", url="http://127.0.0.1:1", token="t-_")
    found = cluster_access.load(str(tmp_path / "k"), context="", environ={}, clock=clocks.FakeClock())
    assert found.server == "http://127.0.0.1:1"
    assert found.credentials == accesses.FixedCredentials(value="Bearer t-_")


async def test_a_client_without_the_token_gets_one_line(tmp_path: pathlib.Path) -> None:
    with control_planes.embedded(tmp_path) as api:
        access.write_kubeconfig(tmp_path / "wrong", name="c", url=api.url, token="wrong")
        wanted = api_client.KubeSettings(kubeconfig=str(tmp_path / "wrong"))
        client = await api_client.connect(wanted, clock=clocks.SystemClock(), user_agent="test")
        with pytest.raises(errors.CaricoError, match="carico env") as caught:
            await client.request("GET", "/api/v1/pods")
        await client.close()
    assert "\n" not in str(caught.value)

"""Whose token it is: what the callout relies on of the Kubernetes API, kept by a real one and by the tests' own."""

import base64
import json
import pathlib
from collections.abc import Iterator

import pytest

from carico_auth import policy, reviews
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from tests.contract.kubernetes import control_planes
from tests.tools import kubernetes, waiting
from tests.tools.api import fake_token_api, real_tokens

AGENT = "carico/carico-agent"
Tokens = fake_token_api.TokenApi | real_tokens.RealTokens


@pytest.fixture(scope="module", params=("fake", "real"))
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tokens, pathlib.Path]]:
    """Tokens of one API, and the kubeconfig of who reviews them."""
    tokens: Tokens
    if request.param == "real":
        plane = request.getfixturevalue("real_control_plane")
        api = control_planes.real(plane, kubernetes.programs("kubectl")["kubectl"].path)
        tokens = real_tokens.RealTokens(api)
    else:
        tokens = fake_token_api.TokenApi()
    path = tokens.write_kubeconfig(tmp_path_factory.mktemp("tokens") / "kubeconfig")
    yield tokens, path
    tokens.close()


async def review(path: pathlib.Path, token: str, *, audience: str = fake_token_api.AUDIENCE) -> reviews.Verdict:
    clock = clocks.SystemClock()
    client = await api_client.connect(api_client.KubeSettings(kubeconfig=str(path)), clock=clock, user_agent="test")
    try:
        return await reviews.Reviewer(client, audience=audience, remember_s=0.0, clock=clock).review(token)
    finally:
        await client.close()


async def refused(path: pathlib.Path, token: str) -> str:
    verdict = await review(path, token)
    assert isinstance(verdict, policy.Refusal)
    assert token not in verdict.detail or not token
    return verdict.reason.value


async def test_a_token_bound_to_a_pod_says_its_node(site: tuple[Tokens, pathlib.Path]) -> None:
    tokens, path = site
    verdict = await review(path, tokens.token(AGENT, node="node-a.example"))
    assert isinstance(verdict, policy.Identity)
    assert (verdict.username, verdict.node) == ("system:serviceaccount:carico:carico-agent", "node-a.example")
    assert abs(verdict.expires_s - clocks.SystemClock().wall_ns() / 1e9 - real_tokens.SHORTEST_LIFE_S) < 60


async def test_a_token_bound_to_nothing_says_no_node(site: tuple[Tokens, pathlib.Path]) -> None:
    tokens, path = site
    verdict = await review(path, tokens.token("carico/carico-reader"))
    assert isinstance(verdict, policy.Identity)
    assert verdict.node is None


async def test_a_token_for_others_is_refused(site: tuple[Tokens, pathlib.Path]) -> None:
    tokens, path = site
    assert await refused(path, tokens.token(AGENT, node="node-a.example", audience="vault")) == "other_audience"


async def test_a_token_whose_pod_is_gone_is_refused(site: tuple[Tokens, pathlib.Path]) -> None:
    tokens, path = site
    # Not reviewed before: a kube-apiserver remembers for 10 s that a token was good.
    token = tokens.token(AGENT, node="node-gone")
    tokens.delete_pods_of("node-gone")
    # It looks up Pods in a copy of its own, which may be a moment behind.
    await waiting.answered(lambda: review(path, token), lambda verdict: isinstance(verdict, policy.Refusal))
    assert await refused(path, token) == "token_refused"


async def test_a_token_that_was_changed_is_refused(site: tuple[Tokens, pathlib.Path]) -> None:
    tokens, path = site
    head, body, signature = tokens.token(AGENT, node="node-a.example").split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    claims["exp"] += 3600
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert await refused(path, f"{head}.{changed}.{signature}") == "token_refused"
    assert await refused(path, "no token at all") == "token_refused"

"""What is made of the API's word about a token; that the API says so is the contract tests' matter."""

import asyncio
import base64
from typing import Any

import orjson
import pytest

from carico_auth import policy, reviews
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

AGENT = "system:serviceaccount:carico:carico-agent"
GOOD = {
    "authenticated": True, "audiences": ["carico-nats"],
    "user": {"username": AGENT, "extra": {reviews.NODE: ["n1"], reviews.POD_UID: ["u1"]}},
}  # fmt: skip


def token(**claims: object) -> str:
    body = orjson.dumps({"aud": ["carico-nats"], **claims})
    return f"e30.{base64.urlsafe_b64encode(body).decode().rstrip('=')}.c2ln"


TOKEN = token(exp=1_700_000_100)


class Api:
    """An API that gives one answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        assert (method, path) == ("POST", reviews.PATH)
        self.asked.append(body["spec"])
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def reviewer(api: Api, clock: clocks.FakeClock | None = None, *, remember_s: float = 10.0) -> reviews.Reviewer:
    return reviews.Reviewer(api, audience="carico-nats", remember_s=remember_s, clock=clock or clocks.FakeClock())


async def test_token_reviews_name_only_our_audience() -> None:
    api = Api({"status": GOOD})
    assert await reviewer(api).review(TOKEN) == policy.Identity(
        username=AGENT, node="n1", pod_uid="u1", expires_s=1_700_000_100
    )
    assert api.asked == [{"token": TOKEN, "audiences": ["carico-nats"]}]


def status(**change: Any) -> dict[str, Any]:
    return {"status": {**GOOD, **change}}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(status(authenticated=False, error="expired"), "token_refused"), (status(authenticated="true"), "token_refused"),
     (status(user={}), "token_refused"), (status(user=None), "token_refused"),
     (status(user={"username": 7}), "token_refused"), ({}, "token_refused"), ([], "token_refused"),
     (status(audiences=["other"]), "other_audience"), (status(audiences=None), "other_audience"),
     (status(audiences="carico-nats"), "other_audience"),
     (errors.ApiUnavailable("away"), "api_away"),
     (errors.Forbidden(status=403, reason="Forbidden", message="no", request="POST"), "api_refuses")],
)  # fmt: skip
async def test_what_is_not_clearly_good_is_refused(answer: Any, reason: str) -> None:
    verdict = await reviewer(Api(answer)).review(TOKEN)
    assert isinstance(verdict, policy.Refusal)
    assert verdict.reason.value == reason


@pytest.mark.parametrize("extra", [{}, None, {reviews.NODE: []}, {reviews.NODE: ["n1", "n2"]}, {reviews.NODE: "n1"}])
async def test_a_token_without_one_node_is_of_no_node(extra: Any) -> None:
    verdict = await reviewer(Api(status(user={"username": AGENT, "extra": extra}))).review(TOKEN)
    assert isinstance(verdict, policy.Identity)
    assert verdict.node is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no_token"), ("x" * 20_000, "no_token"), ("no JWT", "token_refused"), ("a.b.c", "token_refused"),
     ("e30.e30", "token_refused"), ("W10.e30.x", "token_refused"), ("e30.W10.x", "token_refused"),
     ("\udcff.e30.x", "token_refused"), ("e30.e30.x", "never_expires"), (token(), "never_expires"),
     (token(exp="1700000100"), "never_expires"), (token(exp=None), "never_expires"),
     (token(exp=1_700_000_100, aud=["vault"]), "other_audience"),
     (token(exp=1_700_000_100, aud="api"), "other_audience"),
     (token(exp=1_700_000_100, aud=None), "other_audience"), (token(exp=1_699_999_900), "token_refused")],
)  # fmt: skip
async def test_the_api_is_not_asked_about_what_cannot_be_a_token_for_us(text: str, reason: str) -> None:
    api = Api({"status": GOOD})
    verdict = await reviewer(api).review(text)
    assert isinstance(verdict, policy.Refusal)
    assert verdict.reason.value == reason
    assert not api.asked


@pytest.mark.parametrize("audience", ["carico-nats", ["carico-nats"], ["vault", "carico-nats"]])
async def test_the_api_decides_about_what_may_be_a_token_for_us(audience: object) -> None:
    # The API's clock may be behind ours: a token that has just expired is for it to judge.
    for expires_s in (1_700_000_100, 1_699_999_990):
        api = Api({"status": GOOD})
        await reviewer(api).review(token(exp=expires_s, aud=audience))
        assert len(api.asked) == 1


class SlowApi(Api):
    """An API that answers all who ask once it is let go."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.let_go = asyncio.Event()

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        found = await super().request(method, path, body=body)
        await self.let_go.wait()
        return found


async def test_a_flood_of_tokens_is_a_bounded_number_of_reviews_at_a_time() -> None:
    api = SlowApi(status(authenticated=False))
    asked = reviewer(api)
    floods = [asyncio.ensure_future(asked.review(token(exp=1_700_000_100, n=number))) for number in range(200)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(api.asked) == reviews.AT_ONCE_MOST
    # Whoever gives up waiting frees its place.
    floods[0].cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(api.asked) == reviews.AT_ONCE_MOST + 1
    api.let_go.set()
    verdicts = await asyncio.gather(*floods, return_exceptions=True)
    assert sum(isinstance(verdict, policy.Refusal) for verdict in verdicts) == 199


async def test_many_connections_with_one_token_are_a_few_reviews() -> None:
    api = SlowApi({"status": GOOD})
    asked = reviewer(api)
    connections = [asyncio.ensure_future(asked.review(TOKEN)) for _ in range(500)]
    await asyncio.sleep(0)
    api.let_go.set()
    assert {type(verdict) for verdict in await asyncio.gather(*connections)} == {policy.Identity}
    assert len(api.asked) == reviews.AT_ONCE_MOST


async def test_a_good_token_is_remembered_for_a_moment_and_a_bad_one_never() -> None:
    clock, api = clocks.FakeClock(), Api({"status": GOOD})
    asked = reviewer(api, clock)
    await asked.review(TOKEN)
    await asked.review(TOKEN)
    assert len(api.asked) == 1
    clock.advance(10.1)
    api.answer = status(authenticated=False)
    assert isinstance(await asked.review(TOKEN), policy.Refusal)
    await asked.review(TOKEN)
    assert len(api.asked) == 3


async def test_a_remembered_token_still_ends_when_it_ends() -> None:
    clock, api = clocks.FakeClock(), Api({"status": GOOD})
    asked = reviewer(api, clock)
    short = token(exp=1_700_000_005)
    await asked.review(short)
    clock.advance(6.0)
    await asked.review(short)
    assert len(api.asked) == 2


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "REMEMBERED_MOST", 2)
    api = Api({"status": GOOD})
    asked = reviewer(api)
    tokens = [token(exp=1_700_000_100, n=number) for number in range(3)]
    for each in tokens:
        await asked.review(each)
    await asked.review(tokens[2])
    assert len(api.asked) == 3
    await asked.review(tokens[0])
    assert len(api.asked) == 4

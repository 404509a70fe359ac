"""What is made of the API's word about a token; that the API says so is the contract tests' matter."""

import base64
from typing import Any

import pytest

from carico_auth import policy, reviews
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

AGENT = "system:serviceaccount:carico:carico-agent"
GOOD = {
    "authenticated": True, "audiences": ["carico-nats"],
    "user": {"username": AGENT, "extra": {reviews.NODE: ["n1"]}},
}  # fmt: skip


def token(claims: str) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


TOKEN = token('{"exp":1700000100}')


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
    assert await reviewer(api).review(TOKEN) == policy.Identity(username=AGENT, node="n1", expires_s=1_700_000_100)
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


async def test_a_token_that_never_ends_is_refused() -> None:
    verdict = await reviewer(Api({"status": GOOD})).review(token("{}"))
    assert isinstance(verdict, policy.Refusal)
    assert verdict.reason is policy.Refused.NEVER_EXPIRES


@pytest.mark.parametrize("nothing", ["", "x" * 20_000])
async def test_no_token_is_not_asked_about(nothing: str) -> None:
    api = Api({"status": GOOD})
    verdict = await reviewer(api).review(nothing)
    assert isinstance(verdict, policy.Refusal)
    assert not api.asked


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
    short = token('{"exp":1700000005}')
    await asked.review(short)
    clock.advance(6.0)
    await asked.review(short)
    assert len(api.asked) == 2


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "REMEMBERED_MOST", 2)
    api = Api({"status": GOOD})
    asked = reviewer(api)
    tokens = [token(f'{{"exp":1700000100,"n":{number}}}') for number in range(3)]
    for each in tokens:
        await asked.review(each)
    await asked.review(tokens[2])
    assert len(api.asked) == 3
    await asked.review(tokens[0])
    assert len(api.asked) == 4

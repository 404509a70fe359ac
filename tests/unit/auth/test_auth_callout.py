"""The callout's answers: sealed, timely, and silent about why somebody is refused."""

import asyncio
import dataclasses

import pytest

from carico_auth import app, instruments, policy, reviews, settings
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from tests.unit.auth import questions

ISSUER = nkeys.Signer(nkeys.generate(nkeys.Kind.ACCOUNT))
SEALER = nkeys.Sealer(nkeys.generate(nkeys.Kind.CURVE))
AGENT = policy.Identity(
    username="system:serviceaccount:carico:carico-agent", node="n1", pod_uid="u1", expires_s=2_000_000_000
)


class Reviewer:
    """Says one thing of every token; None: says nothing for ever."""

    def __init__(self, verdict: reviews.Verdict | None) -> None:
        self.verdict = verdict

    async def review(self, token: str) -> reviews.Verdict:
        if self.verdict is None:
            await asyncio.Event().wait()
        assert self.verdict is not None
        return self.verdict


class Made:
    """A callout and what it counts."""

    def __init__(self, verdict: reviews.Verdict | None, *, sealed: bool = False, within_s: float = 3.0) -> None:
        clock = clocks.FakeClock()
        self.metrics = metrics.Metrics("auth")
        self.counted = instruments.Instruments(self.metrics, clock=clock)
        self.server = questions.Server()
        accounts = settings.AuthSettings(issuer="x").accounts()
        self.callout = app.Callout(
            Reviewer(verdict), app.Keys(issuer=ISSUER, sealer=SEALER if sealed else None), self.counted,
            accounts=accounts, answer_within_s=within_s, clock=clock,
        )  # fmt: skip

    def refusals(self, reason: str) -> float:
        found = self.metrics.registry.get_sample_value("carico_auth_refusals_total", {"reason": reason})
        return 0.0 if found is None else found


async def test_a_good_token_gets_a_user() -> None:
    made = Made(AGENT)
    answer = await made.callout.answer(made.server.question(), {})
    assert answer is not None
    body = questions.claims_of(answer.decode())["nats"]
    assert questions.claims_of(body["jwt"])["name"] == "agent/n1@carico/u1"
    assert "error" not in body


async def test_the_server_lists_a_connection_with_the_pod_of_its_token() -> None:
    for verdict, name in ((AGENT, "agent/n1@carico/u1"), (dataclasses.replace(AGENT, pod_uid=None), "agent/n1")):
        made = Made(verdict)
        answer = await made.callout.answer(made.server.question(), {})
        assert answer is not None
        user = questions.claims_of(answer.decode())["nats"]["jwt"]
        assert questions.claims_of(user)["name"] == name


async def test_a_bad_one_gets_a_reason_without_its_detail() -> None:
    made = Made(policy.Refusal(reason=policy.Refused.TOKEN_REFUSED, detail="a secret of the API"))
    answer = await made.callout.answer(made.server.question(), {})
    assert answer is not None
    assert questions.claims_of(answer.decode())["nats"]["error"] == "token_refused"
    assert "secret" not in str(questions.claims_of(answer.decode()))
    assert made.refusals("token_refused") == 1
    assert made.counted.trouble() is None


async def test_an_api_that_does_not_answer_in_time_is_a_refusal_and_makes_us_not_ready() -> None:
    made = Made(None, within_s=0.01)
    answer = await made.callout.answer(made.server.question(), {})
    assert answer is not None
    assert questions.claims_of(answer.decode())["nats"]["error"] == "too_late"
    assert "too_late" in (made.counted.trouble() or "")


async def test_a_sealed_question_gets_a_sealed_answer() -> None:
    made = Made(AGENT, sealed=True)
    question = made.server.sealer.seal(made.server.question(), to=SEALER.public)
    sealed = await made.callout.answer(question, {app.XKEY_HEADER: made.server.sealer.public})
    assert sealed is not None
    opened = made.server.sealer.open(sealed, sender=SEALER.public)
    assert "jwt" in questions.claims_of(opened.decode())["nats"]


@pytest.mark.parametrize("headers", [{}, {app.XKEY_HEADER: "X"}, {app.XKEY_HEADER: SEALER.public}])
async def test_where_questions_come_sealed_no_other_is_answered(headers: dict[str, str]) -> None:
    made = Made(AGENT, sealed=True)
    assert await made.callout.answer(made.server.question(), headers) is None
    assert made.refusals("not_a_request") == 1


async def test_noise_is_counted_and_not_answered() -> None:
    made = Made(AGENT)
    assert await made.callout.answer(b"noise", {}) is None
    assert made.refusals("not_a_request") == 1

"""When a token asks for a new connection."""

import base64
import pathlib
import random

import pytest

from carico_core.runtime.bus.security import token_expiry


def jwt(claims: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


def test_a_connection_is_renewed_within_the_last_quarter_of_its_tokens_life() -> None:
    token = jwt(b'{"exp":4600}')
    delays = [token_expiry.renew_in_s(token, now_s=1000.0, rng=random.Random(seed)) for seed in range(50)]
    assert all(delay is not None and 2700.0 <= delay <= 3060.0 for delay in delays)
    assert len(set(delays)) > 40, "agents must not come all at once"


def test_a_token_that_has_expired_is_looked_at_again_soon() -> None:
    assert token_expiry.renew_in_s(jwt(b'{"exp":10}'), now_s=1000.0, rng=random.Random(1)) == token_expiry.AGAIN_S


@pytest.mark.parametrize(
    "token",
    [
        "", "plain", "a.b", "a.!.c", "a.AAAA.c", jwt(b"[]"), jwt(b"{}"), jwt(b'{"exp":"x"}'), "é.é.é",
        "AAAA" + jwt(b'{"exp":1}')[3:],
    ],
)  # fmt: skip
def test_what_is_no_token_with_an_end_asks_for_nothing(token: str) -> None:
    assert token_expiry.renew_in_s(token, now_s=0.0, rng=random.Random(1)) is None


def test_a_file_that_is_being_replaced_is_an_empty_token(tmp_path: pathlib.Path) -> None:
    assert token_expiry.read(tmp_path / "nowhere") == ""
    (tmp_path / "token").write_text(" abc\n")
    assert token_expiry.read(tmp_path / "token") == "abc"

"""What is said of a refusal by NATS holds no secret, however the address is written."""

import pytest

from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals

REFUSED = Exception("nats: 'Authorization Violation'")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nats://agent:hidden@bus:4222", "user agent of its address"),
        ("nats://agent:hid@hidden@bus:4222", "user agent of its address"),
        ("agent:hidden@bus:4222", "user agent of its address"),
        ("nats://hidden@bus:4222", "the token in its address"),
        ("hidden@bus:4222", "the token in its address"),
        ("nats://bus:4222, nats://hidden@other:4222", "the token in its address"),
        ("nats://bus:4222", "who show nothing"),
    ],
)
def test_a_refusal_names_the_user_and_shows_neither_password_nor_token(url: str, words: str) -> None:
    found = refusals.explain(REFUSED, buses.BusSettings(url=url), now_s=0.0)
    assert found.kind is refusals.Kind.IDENTITY
    assert words in found.text
    assert "bus:4222" in found.text
    assert "hid" not in found.text

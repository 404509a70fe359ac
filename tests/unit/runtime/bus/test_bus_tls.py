"""The error of a bad certificate."""

import ssl

import pytest

from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import tls

EXPIRED, OTHER_NAME, UNKNOWN, ODD = 10, 62, 20, 99


@pytest.mark.parametrize("code", [EXPIRED, OTHER_NAME, UNKNOWN, ODD])
def test_an_address_is_shown_without_its_password(code: int) -> None:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code, error.verify_message = code, "why"
    settings = buses.BusSettings(url="tls://agent:secret@nats-0:4222,tls://agent:secret@nats-1:4222")
    text = tls.explain(error, settings)
    assert "tls://nats-0:4222,tls://nats-1:4222" in text
    assert "secret" not in text

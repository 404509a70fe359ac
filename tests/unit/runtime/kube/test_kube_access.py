"""Credentials of requests: a token file is rotated."""

import pathlib

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.process import clock as clocks


async def test_a_token_file_is_read_again(tmp_path: pathlib.Path) -> None:
    clock = clocks.FakeClock()
    token = tmp_path / "token"
    token.write_text("one\n")
    credentials = accesses.FileCredentials(token, clock=clock)
    assert await credentials.authorization() == "Bearer one"
    token.write_text("two\n")
    assert await credentials.authorization() == "Bearer one"
    clock.advance(accesses.TOKEN_FILE_PERIOD_S)
    assert await credentials.authorization() == "Bearer two"
    token.write_text("three\n")
    credentials.expire()
    assert await credentials.authorization() == "Bearer three"
    token.unlink()
    credentials.expire()
    assert await credentials.authorization() == "Bearer three"


async def test_a_token_file_that_was_never_there(tmp_path: pathlib.Path) -> None:
    credentials = accesses.FileCredentials(tmp_path / "token", clock=clocks.FakeClock())
    with pytest.raises(errors.ApiUnavailable, match="token"):
        await credentials.authorization()

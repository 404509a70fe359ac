"""The `carico` command, run in the test's own process."""

import sys

import pytest

from carico_cli import main


def run(monkeypatch: pytest.MonkeyPatch, *argv: object) -> int:
    """Return the exit code of `carico ARGV...`."""
    monkeypatch.setattr(sys, "argv", ["carico", *map(str, argv)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code

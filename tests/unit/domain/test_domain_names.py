"""Names are valid to the length that Kubernetes allows, and not beyond."""

import pytest

from carico_core.domain import errors, names

LONGEST = "a." * 126 + "a"


def test_bounds_of_names() -> None:
    assert len(LONGEST) == names.SUBDOMAIN_MAX
    assert names.is_subdomain(LONGEST)
    assert not names.is_subdomain(LONGEST + "a")
    assert names.is_subdomain("a" * 63)
    assert not names.is_subdomain("a" * 64)
    assert names.is_label("a" * 63)
    assert not names.is_label("a" * 64)


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a..b", "a.", "é"])
def test_what_is_no_name_is_no_token_either(name: str) -> None:
    assert not names.is_subdomain(name)
    with pytest.raises(errors.BadName):
        names.to_token(name)


@pytest.mark.parametrize("token", ["a.b", "", "_a", "A"])
def test_only_what_to_token_makes_is_a_token(token: str) -> None:
    with pytest.raises(errors.BadName):
        names.from_token(token)

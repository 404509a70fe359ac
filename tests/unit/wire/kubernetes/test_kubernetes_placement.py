"""The annotation that names the advertisement a Pod was placed by."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.wire.kubernetes import api_objects, placement

BOOT = "00000000000000a1"
NAME = placement.ADVERTISEMENT_ANNOTATION


def pod(annotation: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "annotations": {NAME: annotation, "other": "x"}}}


@given(boot=st.text("0123456789abcdef", min_size=16, max_size=16), seq=st.integers(1, 10**18 - 1))
def test_what_a_binding_says_is_read_from_the_pod(boot: str, seq: int) -> None:
    said = placement.Advertised(boot=boot, seq=seq)
    body = api_objects.binding_body(
        namespace="default", name="a", uid="1", node="n", annotations=placement.format_advertised(said)
    )
    assert placement.parse_advertised(body) == said


@pytest.mark.parametrize(
    "text",
    [
        "", "7", f"{BOOT}", f"{BOOT}-", f"{BOOT}-0", f"{BOOT}-07", f"{BOOT}--7", f"{BOOT}-7 ", f"{BOOT}-7\n",
        f"{BOOT}-{10**18}", f"{BOOT.upper()}-7", f"{BOOT}0-7", f"{BOOT[1:]}-7", f"{BOOT}-٧", f"{BOOT}-7-7",
        "x" * 200_000, None, 7, ["a"], {"boot": BOOT},
    ],
)  # fmt: skip
def test_what_has_another_form_is_none(text: Any) -> None:
    assert placement.parse_advertised(pod(text)) is None


@pytest.mark.parametrize(
    "found",
    [None, [], "pod", {}, {"metadata": None}, {"metadata": []}, {"metadata": {}}, {"metadata": {"annotations": None}},
     {"metadata": {"annotations": [NAME]}}, {"metadata": {"annotations": {"other": "x"}}}],
)  # fmt: skip
def test_pods_without_it_are_pods_like_others(found: Any) -> None:
    assert placement.parse_advertised(found) is None

"""What the scheduler's answers may be behind of, in words: the Kubernetes API, where that does not tell it more."""

from collections.abc import Mapping
from typing import Any

from carico_cli.explain import words


def lines(answer: Mapping[str, Any]) -> list[str]:
    """Nothing where the API answers the scheduler."""
    found = []
    for what, why in answer.get("away", {}).items():
        found += words.paragraph(f"behind the API as the scheduler sees it: {what}: {why}", "")
    silent_s = answer.get("api_silent_s")
    if silent_s is not None:
        said = f"the Kubernetes API does not answer the scheduler, which last heard of it {words.ago(silent_s)} ago"
        found += words.paragraph(f"{said}: Pods and Nodes are told as they were then", "")
    return found

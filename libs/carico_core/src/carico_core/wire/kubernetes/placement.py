"""By which advertisement a Pod was placed: an annotation of its Binding, which the API takes over to the Pod.

It does so in the write that gives the Pod its node, over what the Pod had under that key before
(k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata), so that it costs no request, and
nobody sees the Pod on its node without it.
"""

import re
from typing import Any, NamedTuple

ADVERTISEMENT_ANNOTATION = "carico.dev/advertisement"
# The header's boot and seq (messages.md); of numbers, those that an int64 holds.
_NAMED = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,17})", re.ASCII)


class Advertised(NamedTuple):
    """One advertisement of a node: its agent's start, and its number since then."""

    boot: str
    seq: int


def format_advertised(said: Advertised) -> dict[str, str]:
    """The annotations that name an advertisement.

    >>> format_advertised(Advertised("00000000000000a1", 7))
    {'carico.dev/advertisement': '00000000000000a1-7'}
    """
    return {ADVERTISEMENT_ANNOTATION: f"{said.boot}-{said.seq}"}


def parse_advertised(pod: Any) -> Advertised | None:
    """The advertisement that a Pod of the API names; None where it names none.

    Whoever may write a Pod may write anything there: what has another form is none.
    """
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ADVERTISEMENT_ANNOTATION) if isinstance(annotations, dict) else None
    found = _NAMED.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else Advertised(boot=found[1], seq=int(found[2]))

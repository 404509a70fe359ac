"""Names of Kubernetes objects: what is valid, and how they appear as one token of a subject."""

import re

from carico_core.domain import errors

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ : RFC 1123 subdomain (253) and label (63).
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LABEL_ONLY = re.compile(_LABEL)
SUBDOMAIN_MAX = 253


def is_subdomain(name: str) -> bool:
    """Return whether `name` is an RFC 1123 subdomain, as names of Nodes and Pods are."""
    return len(name) <= SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Return whether `name` is an RFC 1123 label, as names of Namespaces are."""
    return _LABEL_ONLY.fullmatch(name) is not None


def to_token(name: str, *, kind: str = "node") -> str:
    """Return the subject token of a Node or Pod name: `.` becomes `_`, which no Kubernetes name holds.

    >>> to_token("ip-10-0-0-1.ec2.internal")
    'ip-10-0-0-1_ec2_internal'

    Raises `BadName` where the name is not a valid Kubernetes name.
    """
    if not is_subdomain(name):
        raise errors.BadName(kind, name)
    return name.replace(".", "_")


def from_token(token: str, *, kind: str = "node") -> str:
    """Return the Node or Pod name of a subject token; the inverse of `to_token`.

    Raises `BadName` where the token is not one that `to_token` makes.
    """
    name = token.replace("_", ".")
    if "." in token or not is_subdomain(name):
        raise errors.BadName(kind, token)
    return name

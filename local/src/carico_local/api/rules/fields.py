"""Shared by the rules of all kinds: names, labels, and the causes of a 422 with kube-apiserver's messages.

Source: k8s.io/apimachinery/pkg/util/validation/{validation,field/errors}.go.
"""

import re
from collections.abc import Iterator

from carico_local.api.model import statuses

Causes = Iterator[statuses.Cause]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character"
)


def is_qualified(key: str) -> bool:
    """Return True for a valid label, annotation or taint key: a name, optionally after a domain."""
    prefix, slash, name = key.rpartition("/")
    return (
        0 < len(name) <= 63
        and _QUALIFIED_NAME.fullmatch(name) is not None
        and (not slash or (len(prefix) <= 253 and SUBDOMAIN.fullmatch(prefix) is not None))
    )


def required(field: str, detail: str = "") -> statuses.Cause:
    """Return the cause for a missing field."""
    message = f"Required value: {detail}" if detail else "Required value"
    return statuses.Cause(reason="FieldValueRequired", message=message, field=field)


def wrong(field: str, got: object, detail: str) -> statuses.Cause:
    """Return the cause for a value that violates a rule."""
    shown = f'"{got}"' if isinstance(got, str) else str(got)
    return statuses.Cause(reason="FieldValueInvalid", message=f"Invalid value: {shown}: {detail}", field=field)


def not_supported(field: str, got: object, allowed: tuple[str, ...]) -> statuses.Cause:
    """Return the cause for a value that is not among the allowed ones."""
    listed = ", ".join(f'"{value}"' for value in allowed)
    message = f'Unsupported value: "{got}": supported values: {listed}'
    return statuses.Cause(reason="FieldValueNotSupported", message=message, field=field)


def forbidden(field: str, detail: str) -> statuses.Cause:
    """Return the cause for a field or change that is not allowed."""
    return statuses.Cause(reason="FieldValueForbidden", message=f"Forbidden: {detail}", field=field)


def duplicate(field: str, got: object) -> statuses.Cause:
    """Return the cause for a repeated value."""
    return statuses.Cause(reason="FieldValueDuplicate", message=f'Duplicate value: "{got}"', field=field)

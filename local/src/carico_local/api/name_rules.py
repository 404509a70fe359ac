"""Names, label keys and label values (k8s.io/apimachinery/pkg/util/validation/validation.go)."""

import re

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
    """True for a label key, an annotation's or a taint's: a name, with or without a domain before it."""
    prefix, slash, name = key.rpartition("/")
    return (
        0 < len(name) <= 63
        and _QUALIFIED_NAME.fullmatch(name) is not None
        and (not slash or (len(prefix) <= 253 and SUBDOMAIN.fullmatch(prefix) is not None))
    )

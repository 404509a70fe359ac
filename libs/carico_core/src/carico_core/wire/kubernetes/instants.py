"""Times in objects of the Kubernetes API, as RFC 3339 writes them."""

import datetime


def format_time(at_ns: int) -> str:
    """Return RFC 3339 with whole seconds, the format of Time fields.

    >>> format_time(1_999_999_999)
    '1970-01-01T00:00:01Z'
    """
    return f"{format_instant(at_ns)[:19]}Z"


def format_instant(at_ns: int) -> str:
    """Return RFC 3339 with microseconds, the format of MicroTime fields.

    >>> format_instant(1_000)
    '1970-01-01T00:00:00.000001Z'
    """
    instant = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=at_ns // 1000)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_instant(text: str) -> float:
    """Return the Unix seconds of an RFC 3339 time. Raises `ValueError`.

    >>> parse_instant("1970-01-01T00:00:01Z")
    1.0
    """
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"got {text!r}, expected a time zone")
    return instant.timestamp()


def find_instant(value: object) -> float | None:
    """Return the Unix seconds of a time in an object of the API; None where it is not one.

    >>> find_instant(None)
    """
    try:
        return parse_instant(value) if isinstance(value, str) else None
    except ValueError:
        return None

"""What services say of themselves through NATS's services framework, checked."""

from carico_cli.live import picture as pictures
from carico_core.domain import errors
from carico_core.wire import codec, fields

# Those with few instances. Agents are seen by what they advertise: a thousand of them are not asked one by one.
ASKED = ("carico-scheduler", "carico-aggregator")
_TEXT_MAX = 4096
_ENDPOINTS_MAX = 64
# Answers are counted and timed (in ns) from the start on.
_COUNT_MAX = fields.INT64_MAX


def parse(answered_s: float, payload: bytes) -> pictures.Service:
    """Return one instance's statistics. Raises `MessageError` for what is not as nats.micro writes it."""
    message = codec.parse_json(payload)
    endpoints = message.objects("endpoints", count=_ENDPOINTS_MAX)
    requests = sum(each.integer("num_requests", maximum=_COUNT_MAX) for each in endpoints)
    took_ns = sum(_optional_integer(each, "processing_time") for each in endpoints)
    said = [_optional_text(each, "last_error") for each in endpoints]
    return pictures.Service(
        name=message.text("name", maximum=_TEXT_MAX),
        instance=message.text("id", maximum=_TEXT_MAX),
        version=_optional_text(message, "version"),
        answered_s=answered_s,
        requests=requests,
        errors=sum(each.integer("num_errors", maximum=_COUNT_MAX) for each in endpoints),
        last_error=next((text for text in said if text), ""),
        processing_s=took_ns / requests / 1e9 if requests else None,
    )


def parse_all(answers: list[tuple[float, bytes]]) -> list[pictures.Service]:
    """Return the statistics of each instance that can be read, by name and instance."""
    found = []
    for answered_s, payload in answers:
        try:
            found.append(parse(answered_s, payload))
        except errors.MessageError:
            continue  # another program's service of this name
    return sorted(found, key=lambda each: (each.name, each.instance))


def _optional_integer(message: fields.Fields, name: str) -> int:
    return message.integer(name, maximum=_COUNT_MAX) if message.has(name) else 0


def _optional_text(message: fields.Fields, name: str) -> str:
    return message.text(name, maximum=_TEXT_MAX, free=True) if message.has(name) and message.raw[name] else ""

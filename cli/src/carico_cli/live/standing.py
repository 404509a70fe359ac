"""How a node stands with the scheduler: what bounds the Pods it takes, and why it takes none, where it does not."""

import dataclasses

from carico_core.wire import codec, fields

_ANSWER_MAX_BYTES = 4 * 1024 * 1024
_ROWS_MAX = 4096
_TEXT_MAX = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """So many more Pods by this, and why."""

    what: str
    pods: float
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One node by the scheduler. `bounds`: the tightest first. `refused`: why it takes none; None: it does."""

    bounds: tuple[Bound, ...]
    refused: str | None
    suspect: bool
    # Pods that hold room which the node does not account for yet.
    reserved_by: tuple[str, ...]


def parse(payload: bytes) -> Standing | None:
    """The scheduler's answer to `node.explain`; None where it knows no such node. Raises `MessageError`."""
    message = codec.parse_json(payload, maximum_bytes=_ANSWER_MAX_BYTES)
    if not message.flag("known"):
        return None
    refused = message.fields("refused_by") if message.has("refused_by") else None
    return Standing(
        bounds=tuple(map(_bound, message.objects("bounds", count=_ROWS_MAX))),
        refused=None if refused is None else f"{_text(refused, 'means')}: {_text(refused, 'detail')}",
        suspect=message.fields("trust").flag("is_suspect"),
        reserved_by=tuple(_text(each, "pod") for each in message.objects("reserved_by", count=_ROWS_MAX)),
    )


def _bound(row: fields.Fields) -> Bound:
    pods = row.number("pods", minimum=-fields.QUANTITY_MAX, maximum=fields.QUANTITY_MAX)
    return Bound(what=_text(row, "what"), pods=pods, detail=_text(row, "detail"))


def _text(message: fields.Fields, name: str) -> str:
    return message.text(name, maximum=_TEXT_MAX, free=True)

"""Answers about one node: the agent's `state.get` and the scheduler's `node.explain`, each with a history."""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import errors
from carico_core.wire import codec, fields

_DETAIL_MAX_BYTES = 1024 * 1024
_STANDING_MAX_BYTES = 4 * 1024 * 1024
_HISTORY_MAX = 1000
_ROWS_MAX = 4096
_NOTES_MAX = 64
_TEXT_MAX = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A node as its agent reports it. `history`: column -> values, a row a second."""

    estimator: str
    cores: float
    notes: tuple[str, ...]
    ceiling: Mapping[str, float]
    history: Mapping[str, tuple[float, ...]]
    # The filters' last innovation by dimension, as shares; and whether the agent uses the model of the cluster.
    innovation: Mapping[str, float]
    federated: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit: how many more Pods it allows, and why."""

    what: str
    pods: float
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A node as the scheduler sees it. `bounds`: the tightest first. `refused`: why it takes no Pod, or None.

    `history`: column -> values, oldest first, with how long ago each was as `age_s`; empty where nothing is kept.
    """

    bounds: tuple[Bound, ...]
    refused: str | None
    suspect: bool
    # Pods with a reservation: the node's advertisement does not cover them yet.
    reserved_by: tuple[str, ...]
    history: Mapping[str, tuple[float, ...]]


def parse_detail(payload: bytes) -> Detail:
    """Decode an agent's answer to `state.get`. Raises `MessageError` where it is malformed."""
    message = codec.parse_json(payload, maximum_bytes=_DETAIL_MAX_BYTES)
    now = message.fields("now") if message.has("now") else None
    return Detail(
        estimator=message.text("estimator", maximum=fields.NAME_MAX),
        cores=message.number("cores", maximum=fields.QUANTITY_MAX),
        notes=_notes(message),
        ceiling=message.number_map("ceiling", maximum=fields.QUANTITY_MAX),
        history=_history(message.fields("history")),
        innovation={}
        if now is None
        else now.number_map("innovation", minimum=-fields.QUANTITY_MAX, maximum=fields.QUANTITY_MAX),
        federated=False if now is None else now.flag("federated"),
    )


def parse_notes(payload: bytes) -> tuple[str, ...]:
    """Decode the notes of an agent's answer to `state.get`: few, and printable. Raises `MessageError`."""
    return _notes(codec.parse_json(payload, maximum_bytes=_DETAIL_MAX_BYTES))


def _notes(message: fields.Fields) -> tuple[str, ...]:
    return message.texts("notes", maximum=_TEXT_MAX, count=_NOTES_MAX)


def _history(table: fields.Fields) -> dict[str, tuple[float, ...]]:
    columns = table.texts("columns", maximum=fields.NAME_MAX, count=fields.DIMS_MAX + 8)
    rows = table.raw.get("rows")
    if not isinstance(rows, list) or len(rows) > _HISTORY_MAX or not all(_is_row(row, len(columns)) for row in rows):
        detail = f"got {fields.shown(rows)}, expected rows of {len(columns)} numbers"
        raise table.fail(errors.Drop.WRONG_SHAPE, "rows", detail)
    return {column: tuple(float(row[index]) for row in rows) for index, column in enumerate(columns)}


def _is_row(row: object, width: int) -> bool:
    return isinstance(row, list) and len(row) == width and all(type(value) in (int, float) for value in row)


def parse_standing(payload: bytes) -> Standing | None:
    """Decode the scheduler's answer to `node.explain`; None where it knows no such node. Raises `MessageError`."""
    message = codec.parse_json(payload, maximum_bytes=_STANDING_MAX_BYTES)
    if not message.flag("known"):
        return None
    refused = message.fields("refused_by") if message.has("refused_by") else None
    # A scheduler of an earlier version keeps none.
    history = _history(message.fields("history")) if message.has("history") else {}
    return Standing(
        bounds=tuple(map(_bound, message.objects("bounds", count=_ROWS_MAX))),
        refused=None if refused is None else f"{_text(refused, 'means')}: {_text(refused, 'detail')}",
        suspect=message.fields("trust").flag("is_suspect"),
        reserved_by=tuple(_text(each, "pod") for each in message.objects("reserved_by", count=_ROWS_MAX)),
        history=history,
    )


def _bound(row: fields.Fields) -> Bound:
    pods = row.number("pods", minimum=-fields.QUANTITY_MAX, maximum=fields.QUANTITY_MAX)
    return Bound(what=_text(row, "what"), pods=pods, detail=_text(row, "detail"))


def _text(message: fields.Fields, name: str) -> str:
    return message.text(name, maximum=_TEXT_MAX, free=True)

"""The view of one node: its last minutes, what a Pod costs there, and why its capacity is what it is."""

import dataclasses
import math
from collections.abc import Sequence

from carico_cli.live import node_answers
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.top.words import columns, spans
from carico_core.domain import amounts, messages

_TITLE_CELLS = 10
_TITLES = {"pods": "Pods", "cpu.pressure": "pressure"}
# As the scheduler keeps it.
_HISTORY_EVERY_S = 10.0
_ROWS_MOST = 90
# A name keeps this much where the numbers need the line.
_NAME_CELLS = 8
_RESERVED_NAMED = 3
_BOUNDS_SHOWN = 3
_MODES = {
    messages.Mode.MEASURED: "by telemetry of Pods like those that run",
    messages.Mode.PREDICTED: "ahead of telemetry, which does not show the last starts and ends yet",
    messages.Mode.WARMING: "nothing measured here yet: costs of the cluster, or a cautious guess",
    messages.Mode.SATURATED: "the node is full: its usage is at least what is shown",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a node. None: no answer yet, or none."""

    node: pictures.Node
    detail: node_answers.Detail | None = None
    standing: node_answers.Standing | None = None


def lines(known: Known, *, width: int) -> list[spans.Line]:
    """Return the view's lines, each of at most `width` cells."""
    found = [_head(known.node, width), ()]
    said = known.node.advertisement
    if known.standing is not None:
        found += _history(known.standing, said, width)
    if said is not None:
        found += [*_dimensions(said, known.detail), (), *_why(said)]
    if known.standing is not None:
        found += _standing(known.standing)
    if known.detail is not None:
        found += [(), *_agent(known.detail)]
    elif said is not None:
        found += [
            (),
            (("its agent does not answer (played nodes have no agent)", "dim"),),
        ]
    return [part for line in found for part in spans.wrapped(line, width, "  ")]


def _count(value: float) -> str:
    """Return a number of Pods, with a digit after the point where it is not whole."""
    return amounts.number(value, 0 if value.is_integer() or value >= 100.0 else 1)


def _spread(found: messages.Estimate, dim: str) -> str:
    return amounts.text_with_sd(dim, found.mean, found.sd, sign="±")


def _head(node: pictures.Node, width: int) -> spans.Line:
    """Return the first line: the name, in the cells that the state leaves, and the state."""
    rest = _state(node)
    cells = max(_NAME_CELLS, width - len(spans.plain(rest)) - 2)
    return ((f" {spans.fitted(node.name, min(cells, len(node.name)))} ", "reverse"), *rest)


def _state(node: pictures.Node) -> spans.Line:
    said = node.advertisement
    found: list[spans.Span] = [(f"  {node.state}", columns.STATE_STYLE[node.state])]
    if said is None:
        return (*found, ("  no advertisement: does its agent run?", "red"))
    found.append((f", {node.age_s:.1f} s old" if node.age_s is not None else "", ""))
    found.append((f"  {amounts.plural(said.pods, 'Pod')}  capacity {columns.capacity_text(node)}", "bold"))
    reserved = columns.NOTHING if node.reserved is None else str(node.reserved)
    free = columns.NOTHING if node.free is None else amounts.number(node.free, 1)
    found.append((f"  reserved {reserved}  free {free}", ""))
    return tuple(found)


def _history(
    standing: node_answers.Standing, said: messages.Advertisement | None, width: int
) -> list[spans.Line]:  # fmt: skip
    """Return a line for each figure; times in which the node did not advertise are blank.

    The last row is up to 10 s old: what the node advertises now is in the other lines of the view, too.
    """
    ages_s = standing.history.get("age_s")
    if not ages_s:
        return [(("no history yet: schedulers keep a row every 10 s", "dim"),), ()]
    found: list[spans.Line] = [((f"the last {formats.duration(ages_s[0])}", "bold"),)]
    cells = max(10, width - _TITLE_CELLS - 22)
    live = {} if said is None else {**said.parts, **said.usage, "capacity": said.capacity, "pods": float(said.pods)}
    for name, each in standing.history.items():
        if name in ("age_s", "capacity_sd"):
            continue
        is_share = name not in ("capacity", "pods")
        shown = "{:.0%}".format if is_share else _count
        newest = live.get(name, each[-1])
        most, when = max(*each, newest), "now" if name in live else "last"
        words = f" {shown(newest)} {when}, most {shown(most)}"
        bars = spans.spark(_spaced(each, ages_s), cells, most=1.0 if is_share else None)
        title = spans.fitted(_TITLES.get(name, spans.clean(name)), _TITLE_CELLS)
        found.append(((title, ""), (bars.ljust(cells), "cyan"), (words, "")))
    return [*found, ()]


def _spaced(values: Sequence[float], ages_s: Sequence[float]) -> list[float]:
    """Return the values at equal intervals, NaN where there is none.

    >>> _spaced([1.0, 2.0, 3.0], [30.0, 10.0, 0.0])
    [1.0, nan, 2.0, 3.0]
    """
    found: list[float] = []
    for value, age_s, after_s in zip(values, ages_s, (*ages_s[1:], ages_s[-1]), strict=True):
        found += [value, *[math.nan] * (min(round((age_s - after_s) / _HISTORY_EVERY_S), _ROWS_MOST) - 1)]
    return found


def _dimensions(said: messages.Advertisement, detail: node_answers.Detail | None) -> list[spans.Line]:
    """Return a line for each dimension: usage, ceiling, headroom, and a Pod's cost with its uncertainty."""
    titles = ("dimension", 10), ("usage", 6), ("ceiling", 8), ("headroom", 12), ("a Pod costs", 20), ("room", 9)
    found: list[spans.Line] = [tuple((spans.fitted(title, cells), "bold") for title, cells in titles)]
    for dim, share in said.usage.items():
        cost = said.cost.get(dim)
        headroom = None if said.headroom is None else said.headroom.get(dim)
        ceiling = None if detail is None else detail.ceiling.get(dim)
        is_least = dim == said.bottleneck
        cells = (
            spans.fitted(spans.clean(dim), 10),
            spans.fitted(f"{share:.0%}", 6),
            spans.fitted(columns.NOTHING if ceiling is None else f"{ceiling:.0%}", 8),
            spans.fitted(columns.NOTHING if headroom is None else amounts.text(dim, headroom), 12),
            spans.fitted(columns.NOTHING if cost is None else _spread(cost, dim), 20),
            _room(said, dim) + ("  limits it" if is_least else ""),
        )
        found.append(tuple((cell, "yellow" if is_least else "") for cell in cells))
    return found


def _room(said: messages.Advertisement, dim: str) -> str:
    """Return how many Pods fit by this dimension alone, at the cautious cost of the classes that run, or of all."""
    if dim == said.bottleneck:
        return f"{said.capacity:.1f} Pods"
    cautious = _cautious(said, dim)
    if said.headroom is None or dim not in said.headroom or cautious is None:
        return columns.NOTHING
    return f"{max(0.0, said.headroom[dim]) / cautious:.0f} Pods"


def _cautious(said: messages.Advertisement, dim: str) -> float | None:
    classes = list((said.classes or {}).values())
    running = [each for each in classes if each.pods] or classes
    weight = sum(max(each.pods, 1) for each in running)
    total = sum(max(each.pods, 1) * each.cost_plus.get(dim, 0.0) for each in running)
    return total / weight if weight and total > 0.0 else None


def _why(said: messages.Advertisement) -> list[spans.Line]:
    """Return why the capacity is what it is: the formula with this node's numbers."""
    found: list[spans.Line] = [(("why", "bold"),)]
    dim = said.bottleneck
    if dim is not None and said.headroom is not None and dim in said.headroom and said.capacity > 0.0:
        free = said.headroom[dim]
        words = (
            "capacity = headroom / cautious cost of a Pod = "
            f"{amounts.text(dim, free)} / {amounts.text(dim, free / said.capacity)} = {said.capacity:.1f}"
        )
        if free <= 0.0:
            words = f"{dim} is above its ceiling; an empty node still takes one Pod"
    elif dim is not None and said.headroom is None:
        words = f"{dim} limits it: typical work fits {said.signal:.1f} more times below the ceiling"
    elif dim is not None:
        words = f"{dim} limits it: usage and reservations reach the ceiling"
    elif said.limit is not None and said.pods + said.capacity >= said.limit - 1e-6:
        words = f"capacity = limit - Pods = {said.limit} - {said.pods}: the growth of unmeasured load is limited"
    else:
        words = "no dimension limits it: the cap on an agent's capacity does"
    found.append(((words, ""),))
    if said.limit is not None and dim is not None:
        found.append(((f"temporary limit: {amounts.plural(said.limit, 'Pod')}", ""),))
    found.append(((f"{said.mode.value}: {_MODES[said.mode]}", ""),))
    for name, each in sorted((said.classes or {}).items(), key=lambda item: -item[1].pods)[:4]:
        costs = ", ".join(f"{dim} {amounts.text(dim, value)}" for dim, value in each.cost_plus.items())
        found.append(((f"class {_class(name)}: {amounts.plural(each.pods, 'Pod')}; one more costs {costs}", "dim"),))
    return found


def _class(name: str) -> str:
    known = {messages.ANY_CLASS: "any", messages.NEW_CLASS: "new"}
    return known.get(name, spans.clean(name))


def _standing(standing: node_answers.Standing) -> list[spans.Line]:
    """Return the node as the scheduler sees it."""
    found: list[spans.Line] = []
    if standing.refused is not None:
        found.append(((f"takes no Pod now: {spans.clean(standing.refused)}", "yellow"),))
    if standing.suspect:
        found.append((("suspect: its advertisements have not covered a reservation for too long", "red"),))
    for each in standing.bounds[:_BOUNDS_SHOWN]:
        allowed = f"scheduler: {spans.clean(each.what)} allows {amounts.number(each.pods, 1)} more"
        found.append(((f"{allowed}: {spans.clean(each.detail)}", ""),))
    if standing.reserved_by:
        names = ", ".join(map(spans.clean, standing.reserved_by[:_RESERVED_NAMED]))
        more = len(standing.reserved_by) - _RESERVED_NAMED
        found.append(((f"reserved by {names}" + (f" and {more} more" if more > 0 else ""), ""),))
    return found


def _agent(detail: node_answers.Detail) -> list[spans.Line]:
    model = "with" if detail.federated else "without"
    innovation = ", ".join(f"{spans.clean(dim)} {value:+.1%}" for dim, value in detail.innovation.items())
    found: list[spans.Line] = [
        ((f"agent: {detail.estimator} on {detail.cores:g} cores, {model} the model of the cluster", "dim"),),
        ((f"innovation: {innovation}", "dim"),) if innovation else (),
    ]
    found += [((f"note: {spans.clean(note)}", "yellow"),) for note in detail.notes]
    return [line for line in found if line]

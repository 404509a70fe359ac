"""Pods as lines: the table of all of them, and those of one node. Nothing is formatted that is not drawn."""

import math
from collections.abc import Mapping, Sequence

from carico_cli.live import picture as pictures
from carico_cli.output import formats, words
from carico_cli.top.words import spans
from carico_core.domain import amounts, messages, pod_telemetry

# Cells of each column but the first and the last, which share the rest of the line.
_STATE_CELLS, _FOR_CELLS, _NODE_CELLS = 9, 7, 12
# From this width on names and nodes have more room.
_WIDE = 110
_NAME_SHARE = 0.34
# What a running Pod uses: CPU, a blank, memory.
_CPU_CELLS, _MEMORY_CELLS = 5, 7
_USES_CELLS = _CPU_CELLS + 1 + _MEMORY_CELLS
# Pods of one node that are listed; a node has 110 by default.
OF_NODE_MOST = 250
STYLE = {
    pictures.PodState.WAITING: "yellow", pictures.PodState.GATED: "dim", pictures.PodState.STARTING: "cyan",
    pictures.PodState.RUNNING: "green", pictures.PodState.ENDING: "dim", pictures.PodState.FAILED: "red",
    pictures.PodState.SUCCEEDED: "dim",
}  # fmt: skip


class PodTable:
    """The Pods of a picture."""

    def __init__(self, picture: pictures.Picture) -> None:
        self._picture = picture
        self._now_s = picture.taken_ns / 1e9
        self._waiting = picture.waiting
        # Place in the queue by UID, filled when the first waiting Pod is drawn.
        self._places: Mapping[str, int] | None = None
        self._costs: dict[str, str] = {}

    def matching(self, words: str) -> Sequence[pictures.Pod]:
        """Return the Pods that match all words, in the picture's order."""
        wanted = words.lower().split()
        if not wanted:
            return self._picture.pods
        return [pod for pod in self._picture.pods if all(word in self._text(pod) for word in wanted)]

    def line(self, pod: pictures.Pod, width: int) -> spans.Line:
        """Return one Pod's line of at most `width` cells."""
        name, node = _cells(width)
        runs = pod.state in (pictures.PodState.RUNNING, pictures.PodState.ENDING)
        found = (
            (spans.fitted(spans.clean(pod.key), name) + " ", ""),
            (spans.fitted(pod.state.value, _STATE_CELLS) + " ", STYLE[pod.state]),
            (spans.fitted(self._for(pod), _FOR_CELLS, right=True) + " ", ""),
            (spans.fitted(self._at(pod), node) + " ", ""),
            (_uses(self._picture.load(pod)) + " " if runs else "", ""),
            self._last(pod),
        )
        return spans.cut(found, width)

    def of_node(self, node: str, width: int) -> list[spans.Line]:
        """Return a line for each Pod of a node that has not ended, under the titles."""
        ended = (pictures.PodState.FAILED, pictures.PodState.SUCCEEDED)
        found = [pod for pod in self._picture.pods if pod.node == node and pod.state not in ended]
        lines = [head(width), *(self.line(pod, width) for pod in found[:OF_NODE_MOST])]
        if len(found) > OF_NODE_MOST:
            lines.append(((f"... and {len(found) - OF_NODE_MOST} more", "dim"),))
        return lines if found else []

    def before(self, pod: pictures.Pod) -> int | None:
        """Return how many Pods the scheduler considers before a waiting one; None for others."""
        if pod.state is not pictures.PodState.WAITING:
            return None
        if self._places is None:
            self._places = {each.uid: place for place, each in enumerate(self._picture.pods[: self._waiting])}
        return self._places.get(pod.uid)

    def _text(self, pod: pictures.Pod) -> str:
        """Return the text in which a filter's words are searched."""
        words = (pod.namespace, "/", pod.name, " ", pod.state.value, " ", pod.node or "", " ", pod.job, " ")
        return ("".join(words) + self._picture.why(pod)).lower()

    def for_s(self, pod: pictures.Pod) -> float | None:
        """Return how long a Pod has been in its state; None if that is not known."""
        return None if math.isinf(pod.since_s) else max(self._now_s - pod.since_s, 0.0)

    def _for(self, pod: pictures.Pod) -> str:
        for_s = self.for_s(pod)
        return "-" if for_s is None else formats.duration(for_s)

    def _at(self, pod: pictures.Pod) -> str:
        before = self.before(pod)
        if before is not None:
            return f"{before} before" if before else "next"
        return spans.clean(pod.node or "-")

    def _last(self, pod: pictures.Pod) -> spans.Span:
        """Return why it does not run; for one that runs, what its class costs there."""
        why = self._picture.why(pod)
        if why or pod.state is not pictures.PodState.RUNNING or pod.node is None:
            return spans.clean(words.counted(why)), ""
        # The same for all Pods of a class on a node.
        key = f"{pod.node} {pod.pod_class}"
        if key not in self._costs:
            costs = cost_of(self._picture.node(pod.node), pod.pod_class)
            # The units of the first two say what they are.
            named = [("" if dim in ("cpu", "memory") else f"{dim} ") + amounts.text(dim, costs[dim]) for dim in costs]
            self._costs[key] = " ".join(named)
        return self._costs[key], "dim"


def head(width: int) -> spans.Line:
    """Return the titles."""
    name, node = _cells(width)
    return (
        (
            f"{spans.fitted('Pod', name)} {'state':{_STATE_CELLS}} {'for':>{_FOR_CELLS}} "
            f"{spans.fitted('queue, node', node)} {spans.fitted('why, or uses', _USES_CELLS)} its class costs",
            "bold",
        ),
    )


def _cells(width: int) -> tuple[int, int]:
    """Return the cells of the Pod's name and of its node; what it uses and the last column have the rest."""
    node = _NODE_CELLS * (2 if width >= _WIDE else 1)
    left = max(width - _STATE_CELLS - _FOR_CELLS - node - 4, 20)
    return max(int(left * _NAME_SHARE), 12), node


def cost_of(node: pictures.Node | None, pod_class: str) -> Mapping[str, float]:
    """Return what one more Pod of a class costs at most, by dimension, as its node has learnt it."""
    said = None if node is None else node.advertisement
    classes = {} if said is None or said.classes is None else said.classes
    found = classes.get(pod_class) or classes.get(messages.ANY_CLASS)
    return {} if found is None else found.cost_plus


def _uses(load: pod_telemetry.PodLoad | None) -> str:
    """Return what a Pod uses, in `_USES_CELLS` cells or more; a dash if there is no reading of it."""
    if load is None:
        return "-".rjust(_USES_CELLS)
    cpu, memory = amounts.millicores(load.cores), amounts.text("memory", load.memory_bytes)
    return f"{cpu:>{_CPU_CELLS}} {memory:>{_MEMORY_CELLS}}"

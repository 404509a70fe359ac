"""The order and the filter that the user has chosen. Pure."""

import dataclasses
from collections.abc import Iterable

from carico_cli.live import picture as pictures
from carico_cli.top.words import columns


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Order and filter. `sorted_by`: a column's title. `filter`: words, all of which a node must match."""

    sorted_by: str = "node"
    descending: bool = False
    filter: str = ""

    def sorted_by_next(self, titles: list[str], step: int = 1) -> "View":
        """Return the view sorted by the next of these columns; numbers begin with the largest."""
        here = titles.index(self.sorted_by) if self.sorted_by in titles else -1
        title = titles[(here + step) % len(titles)]
        return dataclasses.replace(self, sorted_by=title, descending=_column(title).numeric)

    def reversed(self) -> "View":
        """Return the view in reverse order."""
        return dataclasses.replace(self, descending=not self.descending)

    def filtered(self, text: str) -> "View":
        """Return the view with another filter."""
        return dataclasses.replace(self, filter=text)

    def rows(self, nodes: Iterable[pictures.Node]) -> list[pictures.Node]:
        """Return the nodes that match, in order; those without a value come last."""
        words = self.filter.lower().split()
        found = [node for node in nodes if all(word in _text(node) for word in words)] if words else list(nodes)
        if self.sorted_by == "node":
            # A picture's nodes are already in the order of their names, node-2 before node-10.
            return found[::-1] if self.descending else found
        key = _column(self.sorted_by).key
        valued = [(value, node) for node in found if (value := key(node)) is not None]
        # Stable: equal values stay in the order of the names.
        valued.sort(key=lambda pair: pair[0], reverse=self.descending)
        return [node for _, node in valued] + [node for node in found if key(node) is None]


def _column(title: str) -> columns.Column:
    return next(column for column in columns.COLUMNS if column.title == title)


def _text(node: pictures.Node) -> str:
    """Return the text in which a filter's words are searched."""
    said = node.advertisement
    more = "" if said is None else f"{said.mode.value} {said.bottleneck or ''}"
    return f"{node.name} {node.state} {node.freshness.value} {more}".lower()

"""Templates and files of the chart, from the merged objects."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tests.tools.make.helm_chart import combinations, conditions, expressions, merging

# The text of each file, by its path in the chart.
Texts: TypeAlias = Mapping[str, str]
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
_HEAD = "{{- /* Written by `make chart` from deploy/k8s: change that instead. */}}"
_FILES = {
    "ServiceAccount": "rbac", "ClusterRole": "rbac", "ClusterRoleBinding": "rbac", "Role": "rbac",
    "RoleBinding": "rbac", "ValidatingAdmissionPolicy": "rbac", "ValidatingAdmissionPolicyBinding": "rbac",
    "NetworkPolicy": "network-policies", "PodDisruptionBudget": "disruption-budgets",
    "PriorityClass": "priority-classes", "ConfigMap": "config-maps", "Service": "services",
}  # fmt: skip
# Of kustomize's generators: a hash, in the letters that it uses.
_HASH = re.compile(r"-[bcdfghkmt2456789]{10}$")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object of the chart: its condition, and the tree of its renderings."""

    kind: str
    name: str
    condition: conditions.Condition
    node: merging.Node

    @property
    def service(self) -> str | None:
        """The section of the values that is about it."""
        return service_of(self.kind, self.name)


def service_of(kind: str, name: str) -> str | None:
    """Return the name of a service, where an object is what runs it."""
    return name.removeprefix("carico-") if kind in WORKLOADS else None


def fixed_settings(node: merging.Node) -> Iterator[str]:
    """Yield the settings that Kubernetes gives a Pod, such as its address: no value replaces them."""
    if isinstance(node, merging.Choice):
        node = merging.Items([(condition, merging.Same(value)) for condition, value in node.options])
    if not _is_container(node):
        return
    if _is_list(node):
        children = [element for _, element in _items_of(node)]
    else:
        fields = {key: value for key, _, value in _fields_of(node)}
        children = list(fields.values())
        name = _name_of(node)
        if "valueFrom" in fields and name is not None and name.startswith(expressions.SETTING):
            yield name
    for child in children:
        yield from fixed_settings(child)


def objects(renderings: Mapping[combinations.Sample, combinations.Objects]) -> list[Object]:
    """Return the objects of all combinations."""
    found: dict[tuple[str, str], dict[combinations.Sample, Any]] = {}
    for each, documents in renderings.items():
        for document in documents:
            key = (document["kind"], _HASH.sub("", document["metadata"]["name"]))
            found.setdefault(key, {})[each] = document
    return [
        Object(kind=kind, name=name, condition=merging.presence(variants, renderings), node=merging.merged(variants))
        for (kind, name), variants in sorted(found.items())
    ]


def texts(found: Sequence[Object]) -> Texts:
    """Return the templates and the files that they include."""
    written: dict[str, str] = {}
    for each in found:
        file = each.name if each.kind in WORKLOADS else _FILES.get(each.kind, each.kind.lower())
        template = f"templates/{file}.yaml"
        lines = _Document(each, written).lines()
        written[template] = "\n".join((written.get(template, _HEAD), *lines))
    return {path: text if path.startswith("files/") else f"{text}\n" for path, text in written.items()}


class _Document:
    """One object as text; long texts of its data go to files."""

    def __init__(self, shown: Object, files: dict[str, str]) -> None:
        self._object = shown
        self._service = shown.service
        self._files = files

    def lines(self) -> list[str]:
        fields = self._of_fields(self._object.node, (), 0)
        return _guarded(self._object.condition, ["---", *fields])

    def _of_fields(
        self, node: merging.Node, path: expressions.Path, indent: int, given: conditions.Condition = conditions.ALWAYS
    ) -> list[str]:
        """`given` is the condition of the nearest choice around them."""
        lines: list[str] = []
        for condition, fields in itertools.groupby(_fields_of(node), key=lambda field: field[1]):
            block = [
                line for key, _, value in fields for line in self._of_field(key, value, (*path, key), indent, given)
            ]
            lines += _guarded(condition, block)
        if path[-2:] == ("template", "spec"):
            lines += expressions.pull_secrets(indent)
        return lines

    def _of_field(
        self, key: str, node: merging.Node, path: expressions.Path, indent: int, given: conditions.Condition
    ) -> list[str]:
        pad = " " * indent
        if isinstance(node, merging.Choice):
            return self._of_choice(key, node, path, indent)
        if not _is_container(node):
            assert isinstance(node, merging.Same)
            return [f"{pad}{key}: {self._scalar(node.value, path, given)}"]
        if isinstance(node, merging.Same) and not node.value:
            return [f"{pad}{key}: {'{}' if isinstance(node.value, dict) else '[]'}"]
        if _is_list(node):
            return [f"{pad}{key}:", *self._of_items(node, path, indent + 2)]
        lines = [f"{pad}{key}:", *self._of_fields(node, path, indent + 2, given)]
        if key == "resources" and self._service is not None and "containers" in path:
            return expressions.resources(self._service, lines, indent)
        return lines

    def _of_choice(self, key: str, node: merging.Choice, path: expressions.Path, indent: int) -> list[str]:
        *first, (_, last) = node.options
        # It gets the plain name where several texts become files.
        otherwise = self._of_field(key, merging.Same(last), path, indent, conditions.ALWAYS)
        lines: list[str] = []
        for condition, value in first:
            keyword = "else if" if lines else "if"
            lines.append(f"{{{{- {keyword} {conditions.text(condition)} }}}}")
            lines += self._of_field(key, merging.Same(value), path, indent, condition)
        return [*lines, "{{- else }}", *otherwise, "{{- end }}"]

    def _of_items(self, node: merging.Node, path: expressions.Path, indent: int) -> list[str]:
        lines: list[str] = []
        # By the condition under which the manifest names them: otherwise they are settings like any other.
        settings: dict[conditions.Condition, list[str]] = {}
        for condition, elements in itertools.groupby(_items_of(node), key=lambda item: item[0]):
            block: list[str] = []
            for _, element in elements:
                name = _name_of(element)
                if name is not None and name.startswith(expressions.SETTING):
                    settings.setdefault(condition, []).append(name)
                # An element without a name is found by the list that it is in.
                block += self._of_element(element, (*path, name) if name else path, indent)
            lines += _guarded(condition, block)
        if path[-1] == "env" and self._service is not None and settings:
            always = expressions.listed(settings.pop(conditions.ALWAYS, []))
            lines.append(f"{{{{- $named := {always} }}}}")
            for condition, names in settings.items():
                lines += _guarded(condition, [f"{{{{- $named = concat $named {expressions.listed(names)} }}}}"])
            lines += expressions.more_settings(self._service, indent)
        return lines

    def _of_element(self, node: merging.Node, path: expressions.Path, indent: int) -> list[str]:
        if not _is_container(node):
            assert isinstance(node, merging.Same)
            return [f"{' ' * indent}- {expressions.scalar(node.value, (*path, ''), self._service)}"]
        fields = sorted(_fields_of(node), key=lambda field: _rank(*field))
        lines = self._of_fields(merging.Fields(fields), path, indent + 2)
        return [f"{' ' * indent}- {lines[0].lstrip()}", *lines[1:]]

    def _scalar(self, value: Any, path: expressions.Path, given: conditions.Condition) -> str:
        if path[0] != "data" or "\n" not in str(value):
            return expressions.scalar(value, path, self._service)
        folder = f"files/{self._object.name}"
        file = f"{folder}/{path[-1]}"
        if self._files.setdefault(file, value) != value:
            file = f"{folder}/{conditions.words(given)}/{path[-1]}"
            assert self._files.setdefault(file, value) == value, file
        return expressions.content(file, value)


def _guarded(condition: conditions.Condition, lines: list[str]) -> list[str]:
    if condition == conditions.ALWAYS:
        return lines
    return [f"{{{{- if {conditions.text(condition)} }}}}", *lines, "{{- end }}"]


def _is_container(node: merging.Node) -> bool:
    return not isinstance(node, merging.Same) or isinstance(node.value, dict | list)


def _is_list(node: merging.Node) -> bool:
    return isinstance(node, merging.Items) or (isinstance(node, merging.Same) and isinstance(node.value, list))


def _fields_of(node: merging.Node) -> Sequence[tuple[str, conditions.Condition, merging.Node]]:
    if isinstance(node, merging.Fields):
        return node.fields
    assert isinstance(node, merging.Same)
    return [(key, conditions.ALWAYS, merging.Same(value)) for key, value in node.value.items()]


def _items_of(node: merging.Node) -> Sequence[tuple[conditions.Condition, merging.Node]]:
    if isinstance(node, merging.Items):
        return node.items
    assert isinstance(node, merging.Same)
    return [(conditions.ALWAYS, merging.Same(value)) for value in node.value]


def _name_of(node: merging.Node) -> str | None:
    if not _is_container(node):
        return None
    for key, _, value in _fields_of(node):
        if key == "name" and isinstance(value, merging.Same):
            return str(value.value)
    return None


def _rank(key: str, condition: conditions.Condition, node: merging.Node) -> int:
    """Return 0 for a name, 1 for another field that can have the dash of its element, 2 for one that cannot.

    The first line of an element must be there in every rendering.
    """
    if condition != conditions.ALWAYS or isinstance(node, merging.Choice) or key == "resources":
        return 2
    return 0 if key == "name" else 1

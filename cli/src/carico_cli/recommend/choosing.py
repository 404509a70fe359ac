"""Which classes a namespace, a class or a workload means. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from carico_core.domain import errors, names

NEAREST_MOST = 3
# With it, one wrong letter of two is still a near miss.
_ALIKE = 0.5
# The kind in the name of a class, by the words of kubectl: a Deployment owns its Pods through ReplicaSets, a CronJob
# through Jobs.
_KINDS: Mapping[str, str] = {
    word: kind
    for kind, words in {
        "ReplicaSet": "deploy deployment deployments deployments.apps rs replicaset replicasets",
        "StatefulSet": "sts statefulset statefulsets statefulsets.apps",
        "Job": "job jobs jobs.batch cj cronjob cronjobs cronjobs.batch",
        "ReplicationController": "rc replicationcontroller replicationcontrollers",
        "app": "app",
        "image": "image",
    }.items()
    for word in words.split()
}

Row = Mapping[str, Any]


class ClassName(NamedTuple):
    """The parts of a class's name: kind of the owner (or "app", "image"), namespace, name."""

    kind: str
    namespace: str
    name: str


def parse(pod_class: str) -> ClassName:
    """Return the parts of the name of a class.

    >>> parse("image/default/registry.example/web:1")
    ClassName(kind='image', namespace='default', name='registry.example/web:1')
    """
    kind, _, rest = pod_class.partition("/")
    namespace, _, name = rest.partition("/")
    return ClassName(kind=kind, namespace=namespace, name=name)


def of_class(rows: Sequence[Row], pod_class: str, listing: str) -> list[Row]:
    """Return the row of a class by its whole name. `listing`: the command that lists all. Raises `SettingsError`."""
    found = [row for row in rows if row["class"] == pod_class]
    if not found:
        # Each by its name alone, too: the whole one is mostly kind and namespace.
        whole = {parse(row["class"]).name: str(row["class"]) for row in rows}
        whole |= {str(row["class"]): str(row["class"]) for row in rows}
        raise errors.SettingsError(
            f"--class: got {pod_class!r}, which no node has measured{_near(pod_class, whole, listing)}"
        )
    return found


def of_workload(rows: Sequence[Row], workload: str, listing: str) -> list[Row]:
    """Return the rows of a workload: NAME or KIND/NAME, as kubectl takes it. Raises `SettingsError`."""
    word, slash, name = workload.partition("/")
    known = {each: each for each in sorted({parse(row["class"]).name for row in rows})}
    # The name of an image has slashes of its own.
    if not slash or workload in known:
        slash, name = "", workload
    if not name:
        raise errors.SettingsError(f"WORKLOAD: got {workload!r}, expected NAME or KIND/NAME")
    kind = _KINDS.get(word.lower(), word)
    if slash and not any(parse(row["class"]).kind == kind for row in rows) and kind not in _KINDS.values():
        expected = ", ".join(sorted({"deployment", "statefulset", "job", "cronjob", "app", "image"}))
        near = nearest(workload, known)
        raise errors.SettingsError(f"{workload}: got kind {word!r}, expected a workload's, such as {expected}{near}")
    wanted = {name, names.template_of(name)}
    found = [row for row in rows if (one := parse(row["class"])).name in wanted and (not slash or one.kind == kind)]
    if not found:
        if any(row["class"] == workload for row in rows):
            raise errors.SettingsError(f"{workload}: this is the whole name of a class: give it as --class {workload}")
        raise errors.SettingsError(
            f"{workload}: no node has measured a workload of this name{_near(name, known, listing)}"
        )
    return found


def of_namespace(rows: Sequence[Row], namespace: str) -> list[Row]:
    """Return the rows of a namespace. Raises `SettingsError` for what is no namespace's name."""
    if not names.is_label(namespace):
        raise errors.SettingsError(f"-n: got {namespace!r}, which is not a valid Kubernetes name")
    return [row for row in rows if parse(row["class"]).namespace == namespace]


def namespaces(rows: Iterable[Row]) -> list[str]:
    """Return the namespaces that have classes."""
    return sorted({parse(row["class"]).namespace for row in rows})


def nearest(name: str, known: Mapping[str, str]) -> str:
    """Return the names that are most like one that is not among them, for the end of a sentence; empty if none is.

    `known`: names, and what to show of each.
    """
    near = dict.fromkeys(known[each] for each in names.nearest(name, known, most=NEAREST_MOST, alike=_ALIKE))
    return f" (nearest: {', '.join(near)})" if near else ""


def _near(name: str, known: Mapping[str, str], listing: str) -> str:
    return nearest(name, known) or f": `{listing}` lists what has been measured"

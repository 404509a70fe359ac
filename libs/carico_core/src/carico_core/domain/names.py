"""Names: of Kubernetes objects (which are valid, how they become one token of a subject), and of classes of Pods.

Costs are learnt per class. Agent and scheduler name classes by the same rule, so that both mean the same class.
"""

import collections
import difflib
import heapq
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from carico_core.domain import errors

if TYPE_CHECKING:
    # Its records take a tenth of the time of `carico list`, which reads no Pods.
    from carico_core.domain import cluster

# The schedulerName of Pods that CARICO places, unless settings add others.
SCHEDULER_NAME = "carico"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ : RFC 1123 subdomain (253) and label (63).
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LABEL_ONLY = re.compile(_LABEL)
SUBDOMAIN_MAX = 253
# https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
TEMPLATE_HASH = "pod-template-hash"
# On the new replica of a move of the rescheduler, in place of the label above: its ReplicaSet must not have it yet.
SURGE_LABEL = "carico.dev/surge-template-hash"
# Where several schedulers share the work, this annotation names the bind of a Pod: a start (`start_of`) and a number.
BOUND_BY = "carico.dev/bound-by"
BOUND_BY_MOST = 63 + 1 + 20
# https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
_APP = "app.kubernetes.io/name"
# A CronJob adds to its Jobs' names the minute when they are due; generateName adds five characters.
_GENERATED = re.compile(r"-(?:\d{8,10}|[bcdfghjklmnpqrstvwxz2456789]{5})$")
# What `start_of` adds; earlier versions added it to a host's name with a low line.
_START = re.compile(r"[-_][0-9a-f]{16}$")
# With it, the name of a start is still one label.
REPLICA_MAX = 63 - 17
# In bytes, since a message is bounded in bytes: an advertisement names 48 classes of other nodes. Longer names are cut.
CLASS_MAX = 512
# Of an owner's kind, which the API takes in any length: the class must keep its namespace. Kubernetes' own are shorter.
_KIND_MOST = 63
NEAREST_MOST = 5
# The least similarity of a name that is suggested, by difflib.
_ALIKE = 0.6
# Names that are compared letter by letter: those with the longest common prefix.
_COMPARED_MOST = 200
_WORDS = re.compile(r"[^-./_]+")
_NOT_PRINTABLE = "\N{REPLACEMENT CHARACTER}"


def is_subdomain(name: str) -> bool:
    """Return whether `name` is an RFC 1123 subdomain, as names of Nodes and Pods are."""
    return len(name) <= SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Return whether `name` is an RFC 1123 label, as names of Namespaces are."""
    return _LABEL_ONLY.fullmatch(name) is not None


def check_namespaces(flag: str, given: Iterable[str]) -> None:
    """Raise `ValueError` for what cannot be the name of a namespace; `flag`: how it was given."""
    for name in given:
        if not is_label(name):
            raise ValueError(f"{flag}: got {name!r}, expected a namespace's name")


def to_token(name: str, *, kind: str = "node") -> str:
    """Return the subject token of a Node or Pod name: `.` becomes `_`, which no Kubernetes name contains.

    >>> to_token("ip-10-0-0-1.ec2.internal")
    'ip-10-0-0-1_ec2_internal'

    Raises `BadName` if the name is not a valid Kubernetes name.
    """
    if not is_subdomain(name):
        raise errors.BadName(kind, name)
    return name.replace(".", "_")


def from_token(token: str, *, kind: str = "node") -> str:
    """Return the Node or Pod name of a subject token; the inverse of `to_token`.

    Raises `BadName` if `to_token` cannot have made the token.
    """
    name = token.replace("_", ".")
    if "." in token or not is_subdomain(name):
        raise errors.BadName(kind, token)
    return name


def nearest(name: str, known: Iterable[str], *, most: int = NEAREST_MOST, alike: float = _ALIKE) -> list[str]:
    """Return the names that are probably meant by one that is not among them, best first.

    Those that contain its words in their order come first, the last one perhaps unfinished: generated names are longer
    than what people remember of them. A text that is longer than any name means none: readers of the bus choose what a
    scheduler compares with every Pod.

    >>> nearest("pi-39", ["pi-91513550-38", "pi-91513550-39"], most=1), nearest("helo-1", ["hello-1", "web"])
    (['pi-91513550-39'], ['hello-1'])
    >>> nearest("node-9", ["node-1", "node-2", "node-3"])
    ['node-1', 'node-2', 'node-3']
    """
    if len(name) > CLASS_MAX:
        return []
    known, words = list(known), _WORDS.findall(name)
    longer = heapq.nsmallest(
        most, (each for each in known if len(each) > len(name) and _has_words(each, words)), key=lambda each: len(each)
    )
    if len(longer) == most:
        return longer
    compared = heapq.nlargest(_COMPARED_MOST, known, key=lambda each: _shared(each, name))
    close = difflib.get_close_matches(name, compared, n=most, cutoff=alike)
    # Those that are equally near come in reverse order.
    close.sort(key=lambda each: (-difflib.SequenceMatcher(None, each, name).ratio(), each))
    return list(dict.fromkeys((*longer, *close)))[:most]


def _has_words(name: str, words: Sequence[str]) -> bool:
    """Return whether a name has these words, in their order; of the last one perhaps only the beginning."""
    if not words or words[-1] not in name:
        return False
    left = iter(_WORDS.findall(name))
    return all(word in left for word in words[:-1]) and any(word.startswith(words[-1]) for word in left)


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def template_of(name: str) -> str:
    """Return the name without what a CronJob or `generateName` adds to it.

    >>> template_of("backup-28391040"), template_of("pi-x7k2q"), template_of("pi")
    ('backup', 'pi', 'pi')
    """
    return _GENERATED.sub("", name)


def start_of(replica: str, boot: str) -> str:
    """Return the name of one start of a replica, as in a Lease and on the bus; no two starts have the same.

    >>> start_of("scheduler-2", "18ec536ed0ad95e6")
    'scheduler-2-18ec536ed0ad95e6'
    """
    return f"{replica}-{boot}"


def replica_of(start: str) -> str:
    """Return the replica of a start: in Kubernetes its Pod's name, in a local cluster that of its service.

    >>> replica_of("scheduler-2-18ec536ed0ad95e6"), replica_of("scheduler-2")
    ('scheduler-2', 'scheduler-2')
    """
    return _START.sub("", start)


def shown_of(starts: Collection[str]) -> dict[str, str]:
    """Return how to show each start next to the others: by its replica, where no two are of the same.

    >>> shown_of(["web-18ec536ed0ad95e6", "web-2-18ec536ed0ad95e7", "web-2-18ec536ed0ad95e8"])["web-18ec536ed0ad95e6"]
    'web'
    """
    count = collections.Counter(map(replica_of, starts))
    return {start: replica if count[replica := replica_of(start)] == 1 else start for start in starts}


def class_of(pod: "cluster.Pod") -> str:
    """Return the class of a Pod: kind, namespace and name template of its controlling owner.

    The ReplicaSets of one Deployment are one class, and so are the Jobs of one CronJob. A Pod without owner is named
    after its application label if it has one, else after its image. A class never spans namespaces: what is learnt from
    the Pods of one tenant is not applied to those of another.
    """
    owner = None if pod.owner is None else (pod.owner.kind, pod.owner.name)
    return class_by(pod.namespace, labels=pod.labels, owner=owner, image=pod.image)


def class_by(namespace: str, *, labels: Mapping[str, str], owner: tuple[str, str] | None, image: str) -> str:
    """Return the class of a Pod by all that it depends on. `owner`: kind and name; `image`: of the first container."""
    name = _class_by(namespace, labels, owner, image)[:CLASS_MAX]
    # The API accepts any character in images and owners' names; on the bus, one such name would refuse a whole message.
    if not name.isprintable():
        name = "".join(each if each.isprintable() else _NOT_PRINTABLE for each in name)
    return name if name.isascii() else name.encode()[:CLASS_MAX].decode(errors="ignore")


def namespace_of(pod_class: str) -> str:
    """Return the namespace of a class's Pods; empty for a name that `class_of` does not make.

    >>> namespace_of("ReplicaSet/shop/web"), namespace_of("image/shop/registry/web:1"), namespace_of("*")
    ('shop', 'shop', '')
    """
    return pod_class.partition("/")[2].partition("/")[0]


def largest(sizes: Mapping[str, int], count: int) -> list[str]:
    """Return the `count` classes with most Pods, or seen last; of each namespace as many as of any other that has more.

    A tenant can give each Pod a class of its own; that must not cost the other tenants what was learnt of theirs.
    `sizes`: Pods, or times. Classes with none come last.

    >>> largest({"Job/a/w": 9, "Job/a/x": 8, "Job/a/y": 7, "Job/b/z": 1}, 3)
    ['Job/a/w', 'Job/b/z', 'Job/a/x']
    """
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    if len(ranked) <= count:
        return ranked
    turn_of = turns(ranked)
    return sorted(ranked, key=lambda name: (sizes[name] <= 0, turn_of[name]))[:count]


def turns(ranked: Iterable[str]) -> dict[str, int]:
    """Return for each class how many classes of its namespace come before it.

    >>> turns(["Job/a/w", "Job/a/x", "Job/b/z"])
    {'Job/a/w': 0, 'Job/a/x': 1, 'Job/b/z': 0}
    """
    seen: collections.Counter[str] = collections.Counter()
    found = {}
    for name in ranked:
        namespace = namespace_of(name)
        found[name] = seen[namespace]
        seen[namespace] += 1
    return found


def _class_by(namespace: str, labels: Mapping[str, str], owner: tuple[str, str] | None, image: str) -> str:
    if owner is None:
        app = labels.get(_APP)
        return f"app/{namespace}/{app}" if app else f"image/{namespace}/{image}"
    kind, name = owner
    template_hash = labels.get(TEMPLATE_HASH) or labels.get(SURGE_LABEL)
    ending = f"-{template_hash}"
    is_replica_set = bool(template_hash) and name.endswith(ending)
    name = name.removesuffix(ending) if is_replica_set else template_of(name)
    # Who creates a Pod chooses its owner's kind: with a slash in it, the class could be one of another namespace.
    return f"{kind[:_KIND_MOST].replace('/', _NOT_PRINTABLE)}/{namespace}/{name}"

"""The overlays and components of deploy/k8s, and what kustomize makes of them together."""

import itertools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import yaml

DEPLOY = pathlib.Path(__file__).parents[4] / "deploy"
K8S = DEPLOY / "k8s"
# Overlays that are no component: the other ones add a component to `small`. The first is the default.
PROFILES = ("small", "ha", "shared")
# It annotates what the others have added (deploy/README.md).
LAST = "monitoring"
# A profile other than the first, and components, by their names.
Sample: TypeAlias = frozenset[str]
Objects: TypeAlias = Sequence[Mapping[str, Any]]
# Renders a folder with a kustomization.yaml.
Kustomize: TypeAlias = Callable[[pathlib.Path], str]


def components() -> list[str]:
    """Return the components that a value switches on, in the order in which they are applied."""
    found = sorted(name for name in _folders() if not _joined(name))
    return [name for name in found if name != LAST] + [name for name in found if name == LAST]


def samples() -> list[Sample]:
    """Return the combinations from which the chart is made.

    The first profile with no, one, two and all components; the others without the pairs. A part of a manifest that
    depends on three values at once would not be seen. A test compares the chart with kustomize for other combinations.
    """
    names = components()
    pairs = list(itertools.combinations(names, 2))
    few = [(), *((name,) for name in names), tuple(names)]
    return [
        sample(profile, each) for profile in PROFILES for each in (*few, *(pairs if profile == PROFILES[0] else ()))
    ]


def sample(profile: str, chosen: Iterable[str]) -> Sample:
    """Return a combination; the default profile has no name in it."""
    return frozenset(chosen) | ({profile} - {PROFILES[0]})


def rendered(combination: Sample, kustomize: Kustomize) -> Objects:
    """Return the objects of a combination; without the namespace, which Helm or secrets.sh creates."""
    profile = next((name for name in PROFILES if name in combination), PROFILES[0])
    chosen = [name for name in components() if name in combination]
    with tempfile.TemporaryDirectory(prefix="carico-chart-") as made:
        folder = pathlib.Path(made)
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(K8S / "overlays" / profile, folder)],
            "components": [os.path.relpath(K8S / "components" / name, folder) for name in _with_joined(chosen)],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
        text = kustomize(folder)
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each["kind"] != "Namespace"]


def described(component: str) -> str:
    """Return the first sentence of the comment at the head of a component."""
    lines = (K8S / "components" / component / "kustomization.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("#").strip() for line in itertools.takewhile(_is_comment, lines))
    return comment.split(". ")[0].rstrip(".") + "."


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _folders() -> Iterator[str]:
    return (folder.name for folder in (K8S / "components").iterdir() if (folder / "kustomization.yaml").exists())


def _joined(name: str) -> tuple[str, ...]:
    """Return the components that `name` joins: `web-callout` is what `web` needs with `callout`; none otherwise."""
    names = set(_folders())
    parts = tuple(name.split("-"))
    return parts if len(parts) > 1 and names >= set(parts) else ()


def _with_joined(chosen: Sequence[str]) -> list[str]:
    joined = sorted(name for name in _folders() if _joined(name) and set(_joined(name)) <= set(chosen))
    first = [name for name in chosen if name != LAST]
    return [*first, *joined, *(name for name in chosen if name == LAST)]

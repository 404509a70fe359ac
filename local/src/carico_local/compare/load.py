"""What is run under each scheduler: a job of one of our workloads, or the Pods of manifests."""

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from carico_core.domain import cluster, errors
from carico_core.wire import fields
from carico_local.compare import admission
from carico_local.compare import contender as contenders
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels
from carico_local.node.reporting import registration

Object = Mapping[str, Any]
# What a Pod of a manifest is taken to work if nothing states it: only the time after which a run is given up depends on
# it.
SECONDS = 60.0
# Kinds whose Pods do not end.
_ENDLESS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
_PODS_MOST = 10_000
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_LABEL_MOST = 63


class Load(Protocol):
    """Pods that are created under one contender after another."""

    @property
    def name(self) -> str:
        """The name of its job."""
        ...

    @property
    def namespace(self) -> str:
        """Where its Pods are."""
        ...

    @property
    def pods(self) -> int:
        """How many Pods it has."""
        ...

    def under(self, contender: contenders.Contender, name: str) -> "Load":
        """Return the same for this contender, as a job of this name."""
        ...

    def manifests(self) -> Iterator[dict[str, Any]]:
        """Yield the Pods."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A job of one of our workloads."""

    job: jobs.Job

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.name

    @property
    def namespace(self) -> str:
        """The namespace of the job."""
        return self.job.namespace

    @property
    def pods(self) -> int:
        """How many Pods the job has."""
        return self.job.pods

    def under(self, contender: contenders.Contender, name: str) -> "Program":
        """Return the job for this contender."""
        return Program(
            job=dataclasses.replace(
                self.job,
                name=name,
                scheduler_name=contender.scheduler_name,
                request_millicores=contender.request_millicores,
            )
        )

    def manifests(self) -> Iterator[dict[str, Any]]:
        """Yield the Pods."""
        return jobs.manifests(self.job)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Manifests:
    """Pods of a file. contender None: as the file has them."""

    templates: Sequence[Object]
    name: str = "compare"
    namespace: str = "default"
    contender: contenders.Contender | None = None

    @property
    def pods(self) -> int:
        """How many Pods the file describes."""
        return len(self.templates)

    def under(self, contender: contenders.Contender, name: str) -> "Manifests":
        """Return the Pods for this contender."""
        return dataclasses.replace(self, name=name, contender=contender)

    def manifests(self) -> Iterator[dict[str, Any]]:
        """Yield the Pods: of this job and scheduler, with the contender's CPU request and the file's for the rest."""
        width = len(str(len(self.templates) - 1))
        for index, template in enumerate(self.templates):
            pod = copy.deepcopy(dict(template))
            metadata = pod["metadata"]
            kind = str(metadata.get("generateName") or metadata.get("name") or "pod")[:_LABEL_MOST].rstrip("-.")
            labels = {job_labels.WORKLOAD_LABEL: kind, job_labels.APP_LABEL: kind, **(metadata.get("labels") or {})}
            pod["metadata"] = {
                "name": f"{self.name}-{index:0{width}d}",
                "namespace": self.namespace,
                "labels": {**labels, job_labels.JOB_LABEL: self.name},
                "annotations": dict(metadata.get("annotations") or {}),
            }
            if self.contender is not None:
                pod["spec"]["schedulerName"] = self.contender.scheduler_name
                _request(pod["spec"], self.contender.request_millicores)
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]}


def _request(spec: dict[str, Any], millicores: int | None) -> None:
    """Let the Pod request this much CPU, in its first container; None: nothing at all, as CARICO needs none.

    The API server takes a limit for the request where there is none:
    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    """
    for place, container in enumerate([*spec["containers"], *(spec.get("initContainers") or ())]):
        resources = dict(container.get("resources") or {})
        stated = resources.pop("requests", None) or {}
        requests = {} if millicores is None else {name: each for name, each in stated.items() if name != "cpu"}
        if millicores is not None and place == 0:
            requests["cpu"] = f"{millicores}m"
        for name in resources.get("limits") or ():
            if millicores is None or name == "cpu":
                requests.setdefault(name, "0")
        container["resources"] = {**resources, **({"requests": requests} if requests else {})}


def node(name: str, *, cores: float, memory_bytes: float, is_emulated: bool = True) -> cluster.Node:
    """Return a node as the cluster will have it, of which the controllers copy two labels to their former names.

    `is_emulated`: not a kubelet.
    """
    labels = registration.labels(name)
    if not is_emulated:
        del labels[registration.EMULATED_LABEL]
    former = {f"beta.{key}": labels[key] for key in ("kubernetes.io/os", "kubernetes.io/arch")}
    return cluster.Node(
        name=name, uid=name, labels={**labels, **former}, taints=(), unschedulable=False, ready=True, deleting=False,
        allocatable_cores=cores, allocatable_bytes=memory_bytes, pod_limit=0,
    )  # fmt: skip


def read(
    documents: Iterable[object], *, file: str, nodes: Sequence[cluster.Node], millicores: int = 0,
    are_emulated: bool = True,
) -> Manifests:  # fmt: skip
    """Return the Pods of a file's objects. Raises `SettingsError` for what cannot run on these nodes.

    `millicores`: the largest CPU request that a contender gives to a Pod. `are_emulated`: the nodes, not kubelets.
    """
    templates: list[Object] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        where = f"--workload {file}, object {number}"
        templates += _templates(document, where)
        if len(templates) > _PODS_MOST:
            raise errors.SettingsError(f"{where}: got more than {_PODS_MOST} Pods, expected at most as many")
    if not templates:
        raise errors.SettingsError(f"--workload {file}: got no object, expected a Pod or a Job")
    # Pods of a Job have one template.
    every = list({id(each): each for each in templates}.values())
    pods = []
    for template, made in zip(every, Manifests(templates=every).manifests(), strict=True):
        metadata = template["metadata"]
        name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-") or "(no name)"
        where = f"--workload {file}: Pod {name}"
        pod = admission.check(made, where, nodes, millicores=millicores, are_emulated=are_emulated)
        pods.append((where, pod))
    admission.check_affinity(pods)
    return Manifests(templates=templates)


def _templates(document: object, where: str) -> list[Object]:
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict | None):
        raise errors.SettingsError(f"{where}: got no Kubernetes object, expected a Pod or a Job")
    kind, metadata, spec = document.get("kind"), _metadata(document, where), document.get("spec") or {}
    if kind == "List":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise errors.SettingsError(f"{where}: items: got {fields.shown(items)}, expected a list of objects")
        return [one for each in items for one in _templates(each, where)]
    if kind == "Pod":
        return [{"metadata": metadata, "spec": spec}]
    if kind == "Job":
        template = _part(spec, "template", where)
        for field, only in (("completionMode", "NonIndexed"), ("suspend", False)):
            if spec.get(field) not in (None, only):
                raise errors.SettingsError(
                    f"{where}: spec.{field}: got {fields.shown(spec[field])}, expected {only!r} or none: its Pods are "
                    "created without a Job"
                )
        # Without completions, a Job is done with as many Pods as it has at a time.
        count = spec.get("completions", spec.get("parallelism", 1))
        if type(count) is not int or not 1 <= count <= _PODS_MOST:
            raise errors.SettingsError(f"{where}: completions: got {count!r}, expected 1 to {_PODS_MOST}")
        named = {"generateName": f"{metadata.get('name') or 'job'}-", **_metadata(template, where)}
        return [{"metadata": named, "spec": _part(template, "spec", where)}] * count
    hint = ": its Pods do not end; give a Job of the same Pods" if kind in _ENDLESS else ""
    raise errors.SettingsError(f"{where}: got {kind or 'no kind'}, expected a Pod or a Job{hint}")


def _metadata(found: Object, where: str) -> Object:
    """Return an object's metadata, of which labels and annotations are objects. Raises `SettingsError`."""
    metadata = _part(found, "metadata", where)
    for name in ("labels", "annotations"):
        _part(metadata, name, f"{where}: metadata")
    return metadata


def _part(found: Object, name: str, where: str) -> Object:
    """Return an object within another one, empty if it is not there. Raises `SettingsError`."""
    part = found.get(name)
    if not isinstance(part, dict | None):
        raise errors.SettingsError(f"{where}: {name}: got {fields.shown(part)}, expected an object")
    return part or {}

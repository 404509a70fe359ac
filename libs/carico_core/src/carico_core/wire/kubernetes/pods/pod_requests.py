"""The requests of a Pod per resource, summed as kube-scheduler does."""

import math
from collections.abc import Mapping
from typing import Any

from carico_core.domain import amounts as quantities
from carico_core.wire.kubernetes import object_fields as fields

# Resources that a Pod may specify for itself, instead of its containers' sum; hugepages-<size> as well.
POD_LEVEL = frozenset({"cpu", "memory"})
# In sums of floats, less than this is rounding, not one more unit.
_SLACK = 1e-6

Object = Mapping[str, Any]
Amounts = dict[str, float]


def pod_requests(obj: Object) -> Amounts:
    """Return what a Pod requests per resource.

    That is the larger of (containers and sidecars together) and (each init container with the sidecars started before
    it), replaced by what the Pod specifies for itself, plus the runtime's overhead. A container that is being resized
    counts as the maximum of its requested, allocated and actual resources. Source: PodRequests in
    k8s.io/component-helpers/resource/helpers.go.
    """
    spec = fields.mapping(obj, "spec")
    resized = _Resized(fields.mapping(obj, "status"))
    running: Amounts = {}
    for index, container in enumerate(fields.objects(spec, "containers", "spec.")):
        _add(running, resized.of(container, _container_requests(container, f"spec.containers[{index}].")))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for index, container in enumerate(fields.objects(spec, "initContainers", "spec.")):
        requests = _container_requests(container, f"spec.initContainers[{index}].")
        if container.get("restartPolicy") == "Always":
            requests = resized.of(container, requests)
            _add(running, requests)
            _add(sidecars, requests)
            requests = dict.fromkeys(requests, 0.0)
        # Of what this one does not request, `starting` has what the sidecars before it do: with a name of its own in
        # each of 10,000 containers, looking at all of them again would take half a minute.
        _raise_to(starting, {name: amount + sidecars.get(name, 0.0) for name, amount in requests.items()})
    _raise_to(running, starting)
    if spec.get("resources"):
        running |= resized.whole(_pod_level(_container_requests(spec, "spec.")))
    _add(running, amounts(spec, "overhead", "spec."))
    return running


def rounded(found: Amounts) -> Amounts:
    """Return the amounts as the scheduler compares them: whole millicores, and whole units of all else, rounded up.

    >>> rounded({"cpu": 0.0001, "memory": 1.5})
    {'cpu': 0.001, 'memory': 2.0}
    """
    return {
        name: math.ceil(value * 1000.0 - _SLACK) / 1000.0 if name == "cpu" else float(math.ceil(value - _SLACK))
        for name, value in found.items()
    }


def amounts(obj: Object, key: str, path: str) -> Amounts:
    """Return the quantities at `key` by name. Raises `ValueError` with the path of the bad one."""
    return {name: _amount(value, f"{path}{key}.{name}") for name, value in fields.mapping(obj, key, path).items()}


class _Resized:
    """The actual resources in a Pod's status, while they are resized in place."""

    def __init__(self, status: Object) -> None:
        reported = [
            each
            for key in ("initContainerStatuses", "containerStatuses")
            for each in fields.objects(status, key, "status.")
        ]
        self._status = status
        self._containers = {str(each.get("name")): each for each in reported if each.get("resources") is not None}
        self._is_infeasible = fields.condition(status, "PodResizePending").get("reason") == "Infeasible"

    def of(self, container: Object, asked: Amounts) -> Amounts:
        """Return the requests that count for a container whose spec requests `asked`."""
        reported = self._containers.get(str(container.get("name")))
        return asked if reported is None else self._most(asked, reported, "status.containerStatuses.")

    def whole(self, asked: Amounts) -> Amounts:
        """Return the Pod-level requests that count, if its spec requests `asked`."""
        if self._status.get("resources") is None:
            return asked
        most = self._most(asked, self._status, "status.")
        return {name: most.get(name, 0.0) for name in asked}

    def _most(self, asked: Amounts, reported: Object, path: str) -> Amounts:
        most = {} if self._is_infeasible else dict(asked)
        _raise_to(most, amounts(fields.mapping(reported, "resources", path), "requests", path))
        _raise_to(most, amounts(reported, "allocatedResources", path))
        return most


def _pod_level(found: Amounts) -> Amounts:
    return {name: value for name, value in found.items() if name in POD_LEVEL or name.startswith("hugepages-")}


def _container_requests(container: Object, path: str) -> Amounts:
    """Return the requests; limits count where there is no request, as the API server's default."""
    resources = fields.mapping(container, "resources", path)
    return amounts(resources, "limits", f"{path}resources.") | amounts(resources, "requests", f"{path}resources.")


def _add(total: Amounts, more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


def _raise_to(total: Amounts, least: Mapping[str, float]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0.0), amount)


def _amount(value: object, path: str) -> float:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError(f"{path}: got {value!r}, expected a Kubernetes quantity such as 250m or 1Gi")
    return fields.parsed(path, quantities.parse_quantity, value)

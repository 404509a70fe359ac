"""The environment variables of a container: the node's, then its own, which may refer to others and to fields."""

import re
from collections.abc import Mapping

from carico_local.node import container_spec, podspec, sources

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


def field_value(spec: podspec.PodSpec, path: str, *, pod_ip: str, host_ip: str) -> str:
    """The value of a field that an environment variable may refer to; empty where it is not known."""
    chosen = sources.LABEL_FIELD.fullmatch(path)
    if chosen:
        return (spec.labels if chosen[1] == "labels" else spec.annotations).get(chosen[2], "")
    return {
        "metadata.name": spec.name,
        "metadata.namespace": spec.namespace,
        "metadata.uid": spec.uid,
        "spec.nodeName": spec.node_name,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "spec.serviceAccountName": spec.service_account,
    }.get(path, "")


def environment(
    spec: podspec.PodSpec, container: container_spec.ContainerSpec, *,
    base: Mapping[str, str], pod_ip: str, host_ip: str, node: Mapping[str, float] | None = None,
) -> dict[str, str]:  # fmt: skip
    """The variables of a container: the node's, then its own, each of which may refer to those before it.

    `node`: amounts of the whole node, for limits that are not set.
    """
    variables = dict(base)
    for name, literal, source in container.env:
        if isinstance(source, sources.ResourceRef):
            variables[name] = sources.amount(source, node or {})
        elif source is not None:
            variables[name] = field_value(spec, source, pod_ip=pod_ip, host_ip=host_ip)
        else:
            variables[name] = expand(literal or "", variables)
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`text` with each $(NAME) that is known replaced; $$ stands for $.

    >>> expand("$(A) $(B) $$(A)", {"A": "1"})
    '1 $(B) $(A)'
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)

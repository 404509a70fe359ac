"""The environment variables of a container: the node's, those from `envFrom`, then those from `env`.

Source: kubernetes/pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables). Any key of an object may be a variable's
name: kubelets no longer skip any (RelaxedEnvironmentVariableValidation).
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping

from carico_local.node.containers import config_objects
from carico_local.node.runtime import records
from carico_local.node.spec import container as container_spec
from carico_local.node.spec import pod as podspec
from carico_local.node.spec import sources

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
# A kubelet's names of the kinds in these errors.
_TITLES = {sources.CONFIG_MAP: "ConfigMap", sources.SECRET: "Secret"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Values from ConfigMaps and Secrets for one start of a container: `whole` of `envFrom`, `own` of `env`."""

    whole: Mapping[str, str]
    own: Mapping[str, str]


NOTHING_READ = Read(whole={}, own={})


async def read(container: container_spec.ContainerSpec, objects: config_objects.Objects) -> Read:
    """Return the present values of the container's variables from objects. Raises `config_objects.Unread`."""
    found: dict[tuple[str, str], config_objects.Content | None] = {}

    async def content(ref: sources.KeyRef | sources.WholeRef) -> config_objects.Content | None:
        named = (ref.kind, ref.name)
        if named not in found:
            found[named] = await objects.find(*named)
        if found[named] is None and not ref.optional:
            raise config_objects.not_found(*named)
        return found[named]

    whole: dict[str, str] = {}
    for every in container.env_from:
        if (held := await content(every)) is not None:
            whole |= {every.prefix + key: _text(value) for key, value in held.values.items()}
    own: dict[str, str] = {}
    for name, _, source in container.env:
        if not isinstance(source, sources.KeyRef) or (held := await content(source)) is None:
            continue
        if source.key in held.values:
            own[name] = _text(held.values[source.key])
        elif not source.optional:
            where = f"{_TITLES[source.kind]} {objects.namespace}/{source.name}"
            raise config_objects.Unread(f"couldn't find key {source.key} in {where}")
    return Read(whole=whole, own=own)


def save(path: pathlib.Path, found: Read) -> None:
    """Write the values to a file that only its owner may read."""
    records.write_json(path, dataclasses.asdict(found), mode=0o600)


def load(path: pathlib.Path) -> Read:
    """Return the values that `save` wrote; no values where there is no file."""
    document = records.read_json(path)
    return NOTHING_READ if document is None else Read(**document)


def _text(value: bytes) -> str:
    """Return a value as a variable; bytes that are not UTF-8 reach exec unchanged."""
    return value.decode("utf-8", "surrogateescape")


def field_value(spec: podspec.PodSpec, path: str, *, pod_ip: str, host_ip: str) -> str:
    """Return the value of a field that an environment variable refers to; empty where it is unknown."""
    value = sources.metadata_field(path, spec.metadata)
    if value is not None:
        return value
    return {
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
    objects: Read = NOTHING_READ,
) -> dict[str, str]:  # fmt: skip
    """Return the variables of a container: the node's, then its own, each of which may refer to earlier ones.

    `node`: capacity of the node, for limits that are not set. `objects`: values from ConfigMaps and Secrets.
    """
    variables = {**base, **objects.whole}
    for name, literal, source in container.env:
        if isinstance(source, sources.ResourceRef):
            variables[name] = sources.amount(source, node or {})
        elif isinstance(source, sources.KeyRef):
            if name in objects.own:
                variables[name] = objects.own[name]
        elif source is not None:
            variables[name] = field_value(spec, source, pod_ip=pod_ip, host_ip=host_ip)
        else:
            variables[name] = expand(literal or "", variables)
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with each $(NAME) of a known variable replaced; $$ stands for $.

    >>> expand("$(A) $(B) $$(A)", {"A": "1"})
    '1 $(B) $(A)'
    """

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)

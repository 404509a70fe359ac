"""values.yaml and its schema: profiles, components and services come from deploy/k8s."""

import importlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.reference import setting_catalogue
from carico_core.runtime.process import settings
from tests.tools.make.helm_chart import combinations, expressions, writing

# Kubernetes' own: https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy
_PULL_POLICIES = ("IfNotPresent", "Always", "Never")
# Of a container: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#resources
_RESOURCES = {"limits": {"type": "object"}, "requests": {"type": "object"}, "claims": {"type": "array"}}
_WIDTH = 110
_PROFILES = {
    "small": "one of each service, for up to a few hundred nodes",
    "ha": "three NATS servers with JetStream on volumes, and two of each service",
    "shared": "small, with three schedulers that decide at the same time",
}


def services(found: Sequence[writing.Object]) -> list[str]:
    """Return the services that have a section: those that the chart runs."""
    return sorted(each.service for each in found if each.service is not None)


def fixed_in_number(found: Sequence[writing.Object]) -> set[str]:
    """Return the services without `replicas`: one on each node, or as many as the profile names."""
    return {each.service for each in found if each.kind != "Deployment" and each.service is not None}


def text(found: Sequence[writing.Object], *, nats: str) -> str:
    """Return values.yaml."""
    profiles = [f"#   {name}: {_PROFILES[name]}" for name in combinations.PROFILES]
    components = [
        line
        for name in combinations.components()
        for line in (*_comment(combinations.described(name)), f"  {name}: false")
    ]
    sections = [
        line
        for name in services(found)
        for line in (
            f"{name}:",
            *([f"  image: {nats}"] if name == "nats" else ["  settings: {}"]),
            "  resources: {}",
            *([] if name in fixed_in_number(found) else ["  replicas: null"]),
        )
    ]
    return "\n".join(
        (
            "# Written by `make chart` from deploy/k8s. deploy/README.md describes profiles and components.",
            "",
            "# What CARICO consists of:",
            *profiles,
            f"profile: {combinations.PROFILES[0]}",
            "",
            "# Additions to it. Each needs the Secrets that deploy/README.md names.",
            "components:",
            *components,
            "",
            "# CARICO's own image. An empty tag is the chart's version.",
            "image:",
            "  repository: carico",
            '  tag: ""',
            f"  pullPolicy: {_PULL_POLICIES[0]}",
            "# For example [{name: my-registry}]",
            "imagePullSecrets: []",
            "",
            "# Services. settings: CARICO_... variables (docs/settings.md), also those that the chart sets itself, but",
            "# not those that Kubernetes gives each Pod, such as its address, nor ports and names that others go by.",
            "# resources replaces the whole block of the manifest; null: as many replicas as the profile has.",
            *sections,
            "",
        )
    )


def schema(found: Sequence[writing.Object]) -> str:
    """Return values.schema.json: a value that no template reads is refused."""
    switches = {name: {"type": "boolean", "description": combinations.described(name)}
                for name in combinations.components()}  # fmt: skip
    properties: dict[str, Any] = {
        "profile": {"enum": list(combinations.PROFILES)},
        "components": _closed(switches),
        "image": _closed(
            {"repository": _name(), "tag": {"type": "string"}, "pullPolicy": {"enum": list(_PULL_POLICIES)}}
        ),
        "imagePullSecrets": {"type": "array", "items": _closed({"name": _name()})},
        # Helm's own, for values that all charts of a release share.
        "global": {"type": "object"},
    }
    for name in services(found):
        section: dict[str, Any] = {"resources": {"$ref": "#/definitions/resources"}}
        if name == "nats":
            section["image"] = _name()
        else:
            fixed = {setting for each in found if each.service == name for setting in writing.fixed_settings(each.node)}
            settable = [each for each in variables(name) if each not in fixed and not expressions.is_agreed(each)]
            section["settings"] = _closed({each: {"$ref": "#/definitions/setting"} for each in settable})
        if name not in fixed_in_number(found):
            section["replicas"] = {"type": ["integer", "null"], "minimum": 1}
        properties[name] = _closed(section)
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Values", **_closed(properties),
        "definitions": {"setting": {"type": ["string", "number", "boolean"]}, "resources": _closed(_RESOURCES)},
    }  # fmt: skip
    return json.dumps(whole, indent=2) + "\n"


def variables(service: str) -> list[str]:
    """Return the settings that a service knows: with any other it would not start."""
    (found,) = (each for each in setting_catalogue.PROGRAMS if each.name == f"carico-{service}")
    declared = getattr(importlib.import_module(found.module), found.cls)
    return sorted(each.variable for each in settings.describe(declared, prefix=found.prefix))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, width=_WIDTH, initial_indent="  # ", subsequent_indent="  # ")


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _name() -> dict[str, Any]:
    return {"type": "string", "minLength": 1}

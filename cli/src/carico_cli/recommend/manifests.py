"""Recommendations as resources blocks and as patches for kubectl. Pure."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from carico_cli.recommend import choosing
from carico_core.domain import amounts, errors, names

Row = Mapping[str, Any]
# What each flag means, and what to do about it.
FLAGS: Mapping[str, str] = {
    "one_pod": "measured on one Pod only: its usage may not be typical",
    "all_failed": "almost all Pods have failed, crash or ran out of memory: what is measured is less than they need",
    "image_changed": "the image has changed: the amounts are of the earlier one, too",
    "growing": "its memory still grows: what is measured so far is less than its Pods will need",
    "two_kinds": "its Pods are of two kinds: give each kind an owner or a label of its own",
    "brief": "measured for less than 10 Pod-seconds so far",
}
# Kind in the name of a class -> resource for kubectl, and where its Pod template is.
_TEMPLATES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ReplicaSet": ("deployment", ("spec", "template")),
    "StatefulSet": ("statefulset", ("spec", "template")),
    "ReplicationController": ("replicationcontroller", ("spec", "template")),
    "Job": ("cronjob", ("spec", "jobTemplate", "spec", "template")),
}


def resources(row: Row) -> dict[str, dict[str, str]]:
    """Return the resources block of a class."""
    return {
        field: {dim: amounts.quantity(dim, value) for dim, value in row[field].items()}
        for field in ("requests", "limits")
        if row[field]
    }


def of_containers(row: Row) -> dict[str, dict[str, dict[str, str]]]:
    """Return the resources block of each container; empty if only the whole Pod is measured and has several."""
    if len(row["containers"]) == 1:
        return {row["containers"][0]: resources(row)}
    return {name: resources(each) for name, each in row["of_containers"].items()}


def yaml_text(row: Row) -> str:
    """Return a resources block, with what must be known about it as comments."""
    pods, nodes = amounts.plural(row["pods"], "Pod"), amounts.plural(row["nodes"], "node")
    lines = [f"# {row['class']}: {pods} on {nodes}, confidence {row['confidence']}"]
    lines += [f"# FLAGGED {flag}: {FLAGS[flag]}" for flag in row["flags"]]
    lines += [f"# REFUSED: {each}" for each in row["contradicts"]]
    blocks = of_containers(row)
    if len(blocks) > 1:
        lines.append("containers:")
        for name, block in blocks.items():
            lines += [f"- name: {name}", "  resources:", *_block_lines(block, indent=4)]
        return "\n".join(lines)
    if len(row["containers"]) > 1:
        listed = ", ".join(row["containers"])
        lines.append(f"# of the whole Pod (containers {listed}): Pod-level resources, Kubernetes 1.34 or later")
    lines += ["resources:", *_block_lines(resources(row), indent=2)]
    return "\n".join(lines)


def _block_lines(block: Mapping[str, Mapping[str, str]], *, indent: int) -> list[str]:
    return [
        f"{' ' * indent}{field}: {{{', '.join(f'{dim}: {value}' for dim, value in found.items())}}}"
        for field, found in block.items()
    ]


def patch_text(row: Row, *, forced: bool, is_cron_job: bool, kubectl: str = "kubectl") -> str:
    """Return the command that patches the owner's template. Raises `SettingsError` if it must not or cannot be.

    `is_cron_job`: whether a CronJob of the class's name exists, which the name of a class does not show. `kubectl`: how
    it is run on the cluster.
    """
    one = choosing.parse(row["class"])
    if one.kind == "Job" and not is_cron_job:
        raise errors.SettingsError(
            f"{row['class']}: the Pod template of a Job cannot be changed: put `-o yaml` into what creates the Job"
        )
    # Who creates a Pod chooses its owner's name, which becomes a word of this command.
    is_owner = one.kind in _TEMPLATES and names.is_subdomain(one.name) and names.is_label(one.namespace)
    if not is_owner or not row["containers"]:
        raise errors.SettingsError(
            f"{row['class']}: no known owner with a Pod template: put `-o yaml` into what creates the Pods"
        )
    doubts = [*(FLAGS[flag] for flag in row["flags"]), *row["contradicts"]]
    if doubts and not forced:
        why = "; ".join(doubts)
        raise errors.SettingsError(f"{row['class']}: {why}. --force writes the patch all the same")
    kind, path = _TEMPLATES[one.kind]
    blocks = of_containers(row)
    body: Any = (
        {"containers": [{"name": name, "resources": block} for name, block in blocks.items()]}
        if blocks
        else {"resources": resources(row)}
    )
    for step in reversed((*path, "spec")):
        body = {step: body}
    # The default type, a strategic merge, changes the containers of these names and keeps the others.
    written = shlex.quote(json.dumps(body, separators=(",", ":")))
    return f"{kubectl} patch {kind} {one.name} --namespace {one.namespace} --patch {written}"

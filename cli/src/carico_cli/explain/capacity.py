"""`carico capacity`: how many more Pods of a kind fit, and what limits them."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.explain import asking, fit_text
from carico_cli.live import service_queries
from carico_cli.output import formats
from carico_cli.shell import manifest_files, settings, user_files
from carico_core.domain import errors, names
from carico_core.wire import fields

# The kind of owner that each controller's Pods have: costs are learnt by owner.
_OWNERS = {
    "Deployment": "ReplicaSet", "ReplicaSet": "ReplicaSet", "StatefulSet": "StatefulSet", "Job": "Job",
    "CronJob": "Job",
    "ReplicationController": "ReplicationController",
}  # fmt: skip


@click.command("capacity")
@click.option("--like", help="Pods like this one: NAME (in the namespace of the context) or NAMESPACE/NAME.")
@click.option("--file", "file", type=user_files.PATH, help="Pods of this manifest: a Pod, Deployment, Job, ...")
@click.option(
    "--class", "pod_class", help="Pods of this class, which nodes have measured: Job/default/NAME, or its NAME."
)
@which.flags
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.pass_obj
def command(
    context: settings.Context, /, like: str | None, file: pathlib.Path | None, pod_class: str | None,
    output: formats.Output, **place: Any,
) -> None:  # fmt: skip
    """Show how many more Pods of a kind fit, on each node and in total (default: typical Pods)."""
    question = _question(like, file, pod_class)
    key = None if like is None else asking.key(None, like)
    at = which.meant(context, which.Flags(**place)).where()()
    if key is not None:
        question = {"like": f"{asking.namespace(at, context.environ, key[0])}/{key[1]}"}
    limit = fit_text.SHOWN if output is formats.Output.TEXT else asking.LIMIT_MOST

    async def ask(asker: asking.Asker) -> dict[str, Any]:
        return await _fit(asker, {**question, "limit": limit})

    try:
        answer = asking.run(ask, at, context.environ)
    except service_queries.Refused as error:
        # The scheduler names the fields of the question; the user gave flags.
        said = re.sub(r'"(class|like)"', r"--\1", str(error))
        raise errors.SettingsError(said.replace('"pod"', f"--file {file}" if file else "--like")) from None
    if output is formats.Output.JSON:
        formats.say(formats.json_text(answer))
    else:
        formats.say(fit_text.text(answer, wide=output is formats.Output.WIDE))


async def _fit(asker: asking.Asker, question: Mapping[str, object]) -> dict[str, Any]:
    """Ask the scheduler; send it a Pod that has ended, which it no longer knows."""
    try:
        return await asker.ask("capacity.fit", question)
    except service_queries.Refused:
        like = question.get("like")
        if not isinstance(like, str):
            raise
        namespace, _, name = like.partition("/")
        found = await asker.pod(namespace, name)
        if not isinstance(found, Mapping):
            raise
        more = {key: value for key, value in question.items() if key != "like"}
        return await asker.ask("capacity.fit", {**more, "pod": {"metadata": found["metadata"], "spec": found["spec"]}})


def _question(like: str | None, file: pathlib.Path | None, pod_class: str | None) -> dict[str, object]:
    """Return the question for the scheduler. Raises `SettingsError`."""
    flags = {"--like": like, "--file": file, "--class": pod_class}
    given = [name for name, value in flags.items() if value is not None]
    if pod_class == "":
        raise errors.SettingsError("--class: got an empty name")
    if len(given) > 1:
        raise errors.SettingsError(f"{' and '.join(given)}: expected at most one of --like, --file and --class")
    if like is not None:
        return {"like": like}
    if pod_class is not None:
        return {"class": pod_class}
    return {} if file is None else {"pod": _pod(file)}


def _pod(file: pathlib.Path) -> dict[str, Any]:
    """Return the first Pod that the manifest describes. Raises `SettingsError`."""
    found = manifest_files.read(file, "--file")
    for each in found:
        try:
            pod = pod_of(each) if isinstance(each, dict) else None
        except ValueError as error:
            raise errors.SettingsError(f"--file {file}: {error}") from None
        if pod is not None:
            return pod
    kinds = sorted({str(each.get("kind")) for each in found if isinstance(each, dict)})
    if owners := [kind for kind in kinds if kind in _OWNERS]:
        raise errors.SettingsError(f"--file {file}: got a {owners[0]} without the template of its Pods")
    near = [each for kind in kinds for each in names.nearest(kind, ("Pod", *_OWNERS), most=1)]
    got, meant = ", ".join(kinds) or "nothing", f"; did you mean {near[0]}?" if near else ""
    raise errors.SettingsError(f"--file {file}: got {got}, expected a Pod, or one of {', '.join(_OWNERS)}{meant}")


def pod_of(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the Pod that an object is or creates; None where it creates none. Raises `ValueError`.

    >>> pod_of({"kind": "Pod", "metadata": {"name": "a"}, "spec": {}})["metadata"]["name"]
    'a'
    """
    kind, metadata, spec = str(manifest.get("kind")), _part(manifest, "metadata"), _part(manifest, "spec")
    if kind == "Pod":
        return {"metadata": metadata, "spec": spec}
    if kind == "CronJob":
        spec = _part(_part(spec, "jobTemplate"), "spec")
    template = _part(spec, "template")
    if kind not in _OWNERS or not template:
        return None
    made = _part(template, "metadata")
    owner = {"kind": _OWNERS[kind], "name": metadata.get("name", "what-if"), "uid": "", "controller": True}
    return {
        "metadata": {
            "name": metadata.get("name", "what-if"), "namespace": metadata.get("namespace", "default"),
            "labels": made.get("labels") or {}, "annotations": made.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }  # fmt: skip


def _part(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object within another one, empty if it is not there. Raises `ValueError` for anything else."""
    part = found.get(name) or {}
    if not isinstance(part, dict):
        raise ValueError(f"{name}: got {fields.shown(part)}, expected an object")
    return part

"""`carico explain POD`, `carico explain node NODE` and `carico explain job JOB`."""

import asyncio
from collections.abc import Mapping
from typing import Any

import click
import orjson

from carico_cli.clusters import which
from carico_cli.explain import asking, node_text, pod_text
from carico_cli.live import addresses, service_queries
from carico_cli.output import formats
from carico_cli.shell import settings
from carico_core.domain import decision, errors, names
from carico_core.wire.kubernetes.pods import containers

NODE, POD, JOB = "node", "pod", "job"
# What kubectl calls them, in any case.
_KINDS = {
    word: kind
    for kind, words in ((NODE, "node nodes no"), (POD, "pod pods po"), (JOB, "job jobs job.batch jobs.batch"))
    for word in words.split()
}
# Kinds that create Pods, with kubectl's abbreviations.
_OTHER_KINDS = frozenset(
    kind
    for names_of in (
        "deploy deployment deployments",
        "rs replicaset replicasets",
        "sts statefulset statefulsets",
        "ds daemonset daemonsets",
        "cj cronjob cronjobs",
        "rc replicationcontroller replicationcontrollers",
    )
    for kind in names_of.split()
)
# Phases that the containers' states explain: of a running Pod, a container may end again and again.
_EXPLAINED = ("Pending", "Running", "Failed")
_OF_CONTROLLER = (
    "got {got!r}, expected a Pod, a node or a job: `kubectl get pods` lists the Pods that it created, "
    "`carico capacity --file` shows how many more would fit"
)


@click.command("explain")
@click.argument("what", nargs=-1, metavar="POD | node NODE | job JOB")
@click.option("--namespace", "-n", help="Namespace of the Pod or job (default: that of the kubeconfig's context).")
@which.flags
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.pass_obj
def command(
    context: settings.Context, /, what: tuple[str, ...], namespace: str | None, output: formats.Output, **place: Any
) -> None:
    """Explain why a Pod is on its node or waits, why a node's capacity is what it is, or where a job's time went."""
    kind, name = _meant(what)
    if kind != NODE:
        namespace, name = asking.key(namespace, name)
    at = which.meant(context, which.Flags(**place)).where()()
    in_namespace = asking.namespace(at, context.environ, namespace)
    limit = pod_text.SHOWN if output is formats.Output.TEXT else asking.LIMIT_MOST

    is_json, wide = output is formats.Output.JSON, output is formats.Output.WIDE
    if kind == JOB:
        # Imported here: neither a Pod nor a node needs them.
        from carico_cli.explain import job_asking, job_text

        found = asyncio.run(job_asking.explain(at, context, in_namespace, name))
        formats.say(formats.json_text(found) if is_json else job_text.text(found, wide=wide, at=at))
        return

    async def ask(asker: asking.Asker) -> str:
        if kind == NODE:
            answer = await explain_node(asker, name)
            return formats.json_text(answer) if is_json else node_text.text(answer, wide=wide)
        answer = await explain_pod(asker, in_namespace, name, limit)
        if is_json:
            return formats.json_text(answer)
        return pod_text.text(answer, now_ns=asker.clock.wall_ns(), wide=wide, at=at)

    formats.say(asking.run(ask, at, context.environ))


async def explain_node(asker: asking.Asker, name: str) -> dict[str, Any]:
    """Ask what determines a node's capacity. Raises `SettingsError` for an unknown node."""
    answer = await asker.ask("node.explain", {"node": name})
    if not answer["known"]:
        near = answer.get("nearest") or []
        hint = f" (nearest: {', '.join(near)})" if near else ""
        raise errors.SettingsError(f"node {name!r}{hint}: {answer['why']}")
    return answer


async def explain_pod(asker: asking.Asker, namespace: str, name: str, limit: int) -> dict[str, Any]:
    """Ask scheduler, decision stream and API about a Pod. Raises `SettingsError`."""
    question = {"namespace": namespace, "pod": name, "limit": limit}
    silence: service_queries.NoAnswer | None = None
    try:
        answer = await asker.ask("pod.explain", question)
    except service_queries.NoAnswer as error:
        silence = error
        answer = {"namespace": namespace, "pod": name, "state": "unknown", "why": "", "decision": None}
    answer["note"] = None if silence is None else str(silence)
    if answer["decision"] is None and answer["state"] != "waiting":
        await _add_record(asker, answer)
    made = answer["decision"]
    if answer["state"] == "elsewhere" and made is not None and made["outcome"] == decision.Outcome.BOUND:
        # By a CARICO that serves another name, or by its extender.
        answer |= {"state": "bound", "why": made["message"]}
    if answer["state"] in ("unknown", "ended"):
        await _add_api(asker, answer)
    if answer["state"] == "unknown":
        raise silence or await _not_found(asker, answer, namespace, name)
    # An API that does not answer the scheduler would keep this command waiting, too.
    is_asked = answer.get("phase") in _EXPLAINED and answer.get("api_silent_s") is None
    if answer["state"] == "bound" and is_asked and "containers" not in answer:
        await _add_containers(asker, answer)
    await asyncio.gather(_add_rescheduler(asker, answer), _add_uses(asker, answer))
    if answer.get("containers") and answer.get("phase") == "Pending":
        found = await asker.events(namespace, answer["uid"])
        if isinstance(found, str):
            answer["events_trouble"] = found
        else:
            answer |= {"events": found.newest, "events_earlier": found.earlier, "events_unread": found.unread}
    return answer


async def _add_rescheduler(asker: asking.Asker, answer: dict[str, Any]) -> None:
    """Add what the rescheduler says of a bound Pod, or of one that has ended."""
    if answer["state"] in ("bound", "ended"):
        uid = answer.get("uid") or (answer["decision"] or {}).get("uid")
        found = await asker.rescheduling(answer["namespace"], answer["pod"])
        said = {} if found is None else found if found["known"] else found["went"]
        answer["rescheduler"] = found if said and said["uid"] == uid else None


async def _add_uses(asker: asking.Asker, answer: dict[str, Any]) -> None:
    """Add what a Pod uses that runs, None without a reading; and how many Pods its node's agent left out."""
    if answer.get("phase") != "Running" or not answer.get("node") or not answer.get("uid"):
        return
    reported = await asker.loads(answer["node"])
    used = None if reported is None else reported.loads.get(answer["uid"])
    # The names are those of `carico top --once --pods -o json`.
    answer["uses"] = None if used is None else {
        "cores": used.cores, "waiting_tasks": used.waiting, "memory_bytes": used.memory_bytes
    }  # fmt: skip
    answer["uses_left_out"] = 0 if reported is None else reported.left_out


async def _not_found(asker: asking.Asker, answer: dict[str, Any], namespace: str, name: str) -> errors.CaricoError:
    """Return the error for a Pod that neither scheduler nor API knows."""
    other = await asker.other_kind(namespace, name)
    if not (answer.get("nearest") or answer.get("namespaces") or other):
        # The scheduler has forgotten Pods that have ended.
        there = await asker.there(namespace)
        answer["nearest"] = names.nearest(name, there.pods, most=asking.NEAREST_MOST)
        answer["jobs"] = (names.nearest(name, there.jobs) or there.jobs)[: asking.NEAREST_MOST]
        answer["has_namespace"] = bool(there.pods) or await asker.has_namespace(namespace)
    text = _unknown(answer, other, await asker.refusal(namespace, name), asker.at)
    # While the API does not answer, the Pod may exist: the name need not be wrong.
    is_silent = asking.SILENT in (answer["note"] or "")
    return errors.ApiUnavailable(text) if is_silent else errors.SettingsError(text)


async def _add_record(asker: asking.Asker, answer: dict[str, Any]) -> None:
    """Add the Pod's record from the decision stream: a scheduler knows only those of its own term."""
    found = await asker.record(answer["namespace"], answer["pod"])
    if found is None or answer.get("uid", found.uid) != found.uid:
        return
    # Imported here: the scheduler has decided about most Pods itself.
    from carico_core.wire import messages as wire

    answer["decision"] = orjson.loads(wire.encode_decision(found))
    chosen = next((each for each in answer["decision"]["candidates"] if each["node"] == found.node), None)
    if chosen is not None:
        answer["acted_on"] = {**chosen, "free": found.free, "threshold": found.threshold}
    if answer["state"] == "bound":
        answer["why"] = found.message


async def _add_api(asker: asking.Asker, answer: dict[str, Any]) -> None:
    """Add what the API has of a Pod that the scheduler does not know: it has ended, or is new."""
    found = await asker.pod(answer["namespace"], answer["pod"])
    if isinstance(found, str):
        answer["note"] = "; ".join(filter(None, (answer["note"], found)))
    made = answer["decision"]
    if isinstance(found, Mapping):
        metadata, spec, status = found["metadata"], found.get("spec", {}), found.get("status", {})
        if made is not None and made["uid"] != metadata["uid"]:
            made = answer["decision"] = answer["acted_on"] = None
        answer |= {"uid": metadata["uid"], "node": spec.get("nodeName"), "phase": status.get("phase", "Pending")}
        ended = answer["phase"] in ("Succeeded", "Failed")
        answer["state"] = "ended" if ended else "bound" if answer["node"] else "waiting"
        kept = "" if answer["node"] is None else ": records are kept for a day"
        nothing = f"there is no record of a decision about it{kept}"
        answer["why"] = made["message"] if made else nothing
        answer["containers"] = containers.troubles(status) if answer["phase"] in _EXPLAINED else []
    elif isinstance(found, str) and made is not None and answer["state"] == "unknown":
        # What has happened to the Pod since is not known.
        waits = made["outcome"] == "unschedulable"
        answer |= {"state": "waiting" if waits else "bound", "node": made["node"], "phase": "as last decided"}
        answer["why"] = f"{made['message']} (its last record; current state unknown)"
    elif made is not None and answer["state"] == "unknown":
        answer |= {"state": "ended", "node": made["node"], "why": "the API no longer has it; its last record is shown"}


async def _add_containers(asker: asking.Asker, answer: dict[str, Any]) -> None:
    """Add what the containers of a bound Pod wait for."""
    found = await asker.pod(answer["namespace"], answer["pod"])
    if isinstance(found, Mapping) and found["metadata"]["uid"] == answer["uid"]:
        answer["containers"] = containers.troubles(found.get("status", {}))


def _unknown(answer: Mapping[str, Any], other: str | None, refusal: str | None, at: addresses.Address) -> str:
    hint = f"nearest: {', '.join(answer['nearest'])}" if answer.get("nearest") else ""
    if not hint and answer.get("jobs"):
        explain = at.carico(f"explain job {answer['jobs'][0]}")
        hint = f"jobs there: {', '.join(answer['jobs'])}: `{explain}`"
    if not answer.get("has_namespace", True):
        hint = f"there is no namespace {answer['namespace']!r}"
    if answer.get("namespaces"):
        hint = f"there is one in namespace {', '.join(answer['namespaces'])}: -n"
    elif other is not None:
        where = f" -n {answer['namespace']}" if other == JOB else ""
        explain = at.carico(f"explain {other} {answer['pod']}{where}")
        hint = f"there is a {other} of that name: `{explain}`"
    note = f"; {answer['note']}" if answer.get("note") else ""
    job = "" if refusal is None else f"; the API refused the Pods of the Job of that name: {refusal}"
    return f"Pod {answer['namespace']}/{answer['pod']} not found" + (f" ({hint})" if hint else "") + note + job


def _meant(what: tuple[str, ...]) -> tuple[str, str]:
    """Return the kind and the name of what to explain. Raises `SettingsError`."""
    if "" in what:
        raise errors.SettingsError("got an empty name, expected POD, or: node NODE, or: job JOB")
    kind, slash, rest = what[0].partition("/") if what else ("", "", "")
    kind = kind.lower()
    match what:
        case (name,) if slash and kind in _KINDS:
            return _KINDS[kind], rest
        case (name,) if slash and kind in _OTHER_KINDS:
            raise errors.SettingsError(_OF_CONTROLLER.format(got=name))
        case (name,) if name not in (NODE, POD, JOB):
            return POD, name
        case (_, name) if kind in _KINDS and not slash:
            return _KINDS[kind], name
        case (word, name) if kind in _OTHER_KINDS:
            raise errors.SettingsError(_OF_CONTROLLER.format(got=f"{word} {name}"))
        case (word, name) if near := names.nearest(kind, (NODE, POD, JOB), most=1):
            raise errors.SettingsError(f"got {word!r}, expected node, pod or job: did you mean {near[0]} {name}?")
    got = repr(" ".join(what)) if what else "nothing"
    raise errors.SettingsError(f"got {got}, expected POD, or: node NODE, or: job JOB")

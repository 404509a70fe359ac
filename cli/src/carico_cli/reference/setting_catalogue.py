"""Every setting of each program and every flag of the `carico` command, as the code declares them."""

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

import click

from carico_cli import application
from carico_core.runtime.process import settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, and where its settings are declared."""

    name: str
    what: str
    module: str
    cls: str
    prefix: str


def _service(prefix: str, what: str) -> Program:
    module, cls = f"carico_{prefix}.settings", f"{prefix.title()}Settings"
    return Program(name=f"carico-{prefix}", what=what, module=module, cls=cls, prefix=prefix)


PROGRAMS = (
    _service("agent", "One node's agent"),
    _service("aggregator", "The model of the cluster"),
    _service("scheduler", "Places Pods"),
    _service("auth", "Who may do what on the bus, by the identities of Kubernetes"),
    _service("recommender", "Learnt requests for VerticalPodAutoscaler objects and new Pods"),
    _service("rescheduler", "Moves running Pods to where their traffic is, and to where there is room"),
    _service("web", "The live page"),
    Program(
        name="python -m carico_local.node", what="An emulated node of a local cluster, which `carico up` starts",
        module="carico_local.node.settings", cls="NodeSettings", prefix="node",
    ),
    Program(
        name="python -m carico_local.contained", what="An emulated node that is one container, with its agent",
        module="carico_local.contained.settings", cls="ContainerSettings", prefix="container",
    ),
    Program(
        name="python -m carico_local.played_nodes", what="Plays the agents of kwok nodes",
        module="carico_local.played_nodes.service", cls="PlayedNodesSettings", prefix="fleet",
    ),
    Program(
        name="python -m carico_local.api", what="The embedded Kubernetes API", module="carico_local.api.main",
        cls="Settings", prefix="api",
    ),
)  # fmt: skip
# Settings that several programs share are shown once.
GROUPS = {
    "BUS": "How a service connects to NATS (`CARICO_BUS_...`)",
    "KUBE": "How a service connects to the Kubernetes API (`CARICO_KUBE_...`)",
    "LEADER": "Which of several replicas leads (`CARICO_LEADER_...`)",
    "EXTENDER": "With kube-scheduler: the extender (`CARICO_EXTENDER_...`)",
}


def services() -> str:
    """Return the settings as Markdown, with a table for each program and for each group that programs share."""
    parts, shared = [], dict[str, dict[str, settings.Setting]]()
    for program in PROGRAMS:
        own = []
        for each in described(program):
            group = each.variable.split("_")[1]
            if group == program.prefix.upper():
                own.append(each)
            else:
                shared.setdefault(group, {}).setdefault(each.variable, each)
        parts.append(f"## {program.name}\n{program.what}{_named(program)}.\n\n{_table(own)}")
    for group, found in shared.items():
        parts.append(f"## {GROUPS[group]}\n{_table(list(found.values()))}")
    return "\n\n".join(parts)


def described(program: Program) -> tuple[settings.Setting, ...]:
    """Return every setting of a program."""
    cls: type[Any] = getattr(importlib.import_module(program.module), program.cls)
    return settings.describe(cls, prefix=program.prefix)


def commands() -> str:
    """Return every command of `carico` with its arguments and flags, as Markdown."""
    parts = []
    context = click.Context(application.cli, info_name=application.PROGRAM)
    for path, command in _walk(application.cli, context, (application.PROGRAM,)):
        said = (command.help or "").split("\n\n")[0].replace("\n", " ").strip()
        rows = [_flag(each) for each in command.params if isinstance(each, click.Option) and not each.hidden]
        usage = " ".join((*path, *(each.human_readable_name for each in command.params if _is_argument(each))))
        table = "\n".join(("| flag | default | meaning |", "|---|---|---|", *rows)) if rows else ""
        parts.append("\n".join(part for part in (f"### `{usage}`", said, "", table) if part or table).rstrip())
    return "\n\n".join(parts)


def _walk(
    command: click.Command, context: click.Context, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            yield from _walk(found, context, (*path, name))


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _named(program: Program) -> str:
    groups = sorted({each.variable.split("_")[1] for each in described(program)} - {program.prefix.upper()})
    named = ", ".join(f"`CARICO_{group}_...`" for group in groups)
    return f"; and {named}" if named else ""


def _table(found: list[settings.Setting]) -> str:
    lines = ["| variable | flag | default | expected | meaning |", "|---|---|---|---|---|"]
    for each in found:
        why = f" ({each.why})" if each.why else ""
        expected = each.value.expected(each.unit)
        lines.append(
            f"| `{each.variable}` | `{each.flag}` | {_cell(each.default_text)} | {_cell(expected)} "
            f"| {_cell(each.help + why)} |"
        )
    return "\n".join(lines)


def _flag(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    expected = "" if option.is_flag else f" {_cell(_expected(option.type))}"
    default = option.default
    is_said = default is not None and not callable(default) and not _is_unset(default) and default is not False
    return f"| {names}{expected} | {_cell(str(default)) if is_said else ''} | {_cell(option.help or '')} |"


def _expected(kind: click.ParamType[Any]) -> str:
    if isinstance(kind, click.Choice):
        return " or ".join(str(choice) for choice in kind.choices)
    return kind.name.upper()


def _is_unset(default: object) -> bool:
    # click's mark of an option without a default, and the empty default of a repeated one. The help describes a default
    # of several parts.
    return isinstance(default, tuple) or type(default).__name__ == "Sentinel"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

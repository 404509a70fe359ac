"""Settings of a program, read once at its start from flags and environment into a frozen dataclass.

A field declares what users need to know with `setting(default, help=..., unit=..., why=...)`; `describe` turns the
fields into the table of `--help` and the documentation. The dataclass's `removed` names settings of earlier versions
with their replacements; `gone` names the removed choices of one setting. A field whose type is another such dataclass
is a group: `bus: BusSettings` reads CARICO_BUS_URL and `--bus-url`. A group with `of_program` is separate for each
program: the agent's `http: HttpSettings` reads CARICO_AGENT_HTTP_PORT and `--http-port`. Flags override the
environment; unknown names are refused, and the error suggests the nearest one.
"""

import dataclasses
import os
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from carico_core.domain import errors, names
from carico_core.runtime.process import setting_values

T = TypeVar("T")

# Variables that other programs use as well; read if our own variable is not set.
FOREIGN_VARIABLES = {
    "CARICO_BUS_URL": "NATS_URL",
    "CARICO_KUBE_KUBECONFIG": "KUBECONFIG",
    "CARICO_AGENT_KUBECONFIG": "KUBECONFIG",  # not in a group: an agent without Kubernetes must not load the client
}
# The usual name of the flag, instead of `--kube-kubeconfig`.
FOREIGN_FLAGS = {"CARICO_KUBE_KUBECONFIG": "kubeconfig"}


class _Required:
    """The default of a required setting."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()


def setting(
    default: Any = REQUIRED,
    *,
    help: str,  # noqa: A002  # the usual word, as in argparse
    unit: str = "",
    why: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[Any] | None = None,
    gone: Mapping[str, str] | None = None,
    flag: str | None = None,
) -> Any:
    """Return a dataclass field with meaning, unit, default, reason for the default, and bounds.

    `gone`: removed choices of earlier versions, with their replacements. `flag`: replaces the flag derived from the
    field's name (without leading dashes).
    """
    metadata = {
        "help": help,
        "unit": unit,
        "why": why,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices) if choices is not None else None,
        "gone": dict(gone or {}),
        "flag": flag,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as users see it."""

    path: tuple[str, ...]
    flag: str
    variable: str
    help: str
    unit: str
    why: str
    default: Any
    value: setting_values.Kind
    gone: Mapping[str, str]

    @property
    def default_text(self) -> str:
        """The default as a user would type it, or "required"."""
        return "required" if self.default is REQUIRED else setting_values.to_text(self.default)


def environment() -> dict[str, str]:
    """Return a copy of this process's environment, for programs that start other processes."""
    return dict(os.environ)


def describe(cls: type[Any], *, prefix: str) -> tuple[Setting, ...]:
    """Return every setting of a dataclass, with groups flattened, in the order of declaration."""
    return tuple(_describe(cls, group=prefix, path=()))


def load(
    cls: type[T],
    *,
    prefix: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    program: str,
) -> T:
    """Return an instance of `cls` from flags (`argv`, without the program) and environment.

    `--help` prints the table and raises `SystemExit(0)`. Raises `SettingsError` with one line: the value, what is
    expected, and the nearest name.
    """
    known = describe(cls, prefix=prefix)
    variables = dict(os.environ if environ is None else environ)
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--help" in arguments or "-h" in arguments:
        _show(help_text(cls, prefix=prefix, program=program))
        raise SystemExit(0)
    gone = _removed(cls, group=prefix)
    texts = _from_environment(known, variables, gone) | _from_flags(known, arguments, gone)
    values = {found.path: _parsed(found, *texts[found.path]) for found in known if found.path in texts}
    for found in known:
        if found.path not in values and found.default is REQUIRED:
            raise errors.SettingsError(
                f"{found.flag} is required ({found.help}): give {found.flag} VALUE or set {found.variable}"
            )
    return typing.cast(T, _build(cls, values, ()))


def _show(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # `... --help | head` closes the pipe, and Python would report an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def help_text(cls: type[Any], *, prefix: str, program: str) -> str:
    """Return the output of `--help`: usage, and each setting with meaning, unit, bounds, default and variable."""
    lines = [f"usage: {program} [--SETTING VALUE ...]", "", "Flags override the environment. Settings:"]
    for found in describe(cls, prefix=prefix):
        expected = found.value.expected(found.unit)
        lines.append(f"  {found.flag}  ({expected}; default {found.default_text}; {found.variable})")
        lines.append(f"      {found.help}{f' ({found.why})' if found.why else ''}")
    return "\n".join(lines)


def _describe(cls: type[Any], *, group: str, path: tuple[str, ...]) -> Iterator[Setting]:
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            inner = f"{group}_{field.name}" if getattr(hint, "of_program", False) else field.name
            yield from _describe(typing.cast(type[Any], hint), group=inner, path=(*path, field.name))
            continue
        meta = field.metadata
        variable = f"CARICO_{group}_{field.name}".upper()
        own_flag = meta.get("flag") or FOREIGN_FLAGS.get(variable)
        yield Setting(
            path=(*path, field.name),
            flag="--" + (own_flag or "-".join((*path, field.name)).replace("_", "-")),
            variable=variable,
            help=meta.get("help", field.name.replace("_", " ")),
            unit=meta.get("unit", ""),
            why=meta.get("why", ""),
            gone=meta.get("gone", {}),
            default=_default(field),
            value=setting_values.kind_of(
                hint, minimum=meta.get("minimum"), maximum=meta.get("maximum"), choices=meta.get("choices")
            ),
        )


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED


def _removed(cls: type[Any], *, group: str, path: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the replacement of each removed setting, by its variable and by its flag."""
    found: dict[str, str] = {}
    for name, instead in getattr(cls, "removed", {}).items():
        flag = "--" + "-".join((*path, name)).replace("_", "-")
        found[f"CARICO_{group}_{name}".upper()] = found[flag] = instead
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hint := hints[field.name]):
            found |= _removed(typing.cast(type[Any], hint), group=field.name, path=(*path, field.name))
    return found


# The text of a setting, and the name (flag or variable) that the user gave it by, for error messages.
_Texts = dict[tuple[str, ...], tuple[str, str]]


def _from_environment(known: Sequence[Setting], environ: Mapping[str, str], gone: Mapping[str, str]) -> _Texts:
    by_name = {found.variable: found for found in known}
    # CARICO_AGENT_ of CARICO_AGENT_NODE: unknown names are refused only in groups that this program reads.
    groups = tuple(sorted({found.variable.removesuffix(found.path[-1].upper()) for found in known}))
    texts: _Texts = {}
    for ours, foreign in FOREIGN_VARIABLES.items():
        if ours in by_name and environ.get(foreign):
            texts[by_name[ours].path] = (environ[foreign], foreign)
    for name in sorted(environ):
        if name in by_name:
            texts[by_name[name].path] = (environ[name], name)
        elif name.startswith(groups):
            group = next(each for each in groups if name.startswith(each))
            raise errors.SettingsError(_unknown("environment variable", name, by_name, gone, prefix=group))
    return texts


def _from_flags(known: Sequence[Setting], argv: Sequence[str], gone: Mapping[str, str]) -> _Texts:
    by_flag = {found.flag: found for found in known}
    texts: _Texts = {}
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        name, has_value, value = argument.partition("=")
        if not argument.startswith("--"):
            raise errors.SettingsError(f"got argument {argument!r}, expected flags only (see --help)")
        found = by_flag.get(name)
        positive = by_flag.get("--" + name.removeprefix("--no-"))
        if found is None and not has_value and positive is not None and positive.value.is_switch:
            found, value = positive, "false"
        elif found is None:
            raise errors.SettingsError(_unknown("flag", name, by_flag, gone, prefix="--"))
        elif not has_value and found.value.is_switch:
            value = "true"
        elif not has_value:
            if not rest:
                raise errors.SettingsError(f"{name} has no value, expected {found.value.expected(found.unit)}")
            value = rest.pop(0)
        texts[found.path] = (value, name)
    return texts


def _unknown(what: str, name: str, known: Iterable[str], gone: Mapping[str, str], *, prefix: str) -> str:
    if name in gone:
        return f"{name} was removed: {gone[name]}"
    # Without the prefix, in which all are alike.
    own = (each.removeprefix(prefix) for each in known if each.startswith(prefix))
    near = names.nearest(name.removeprefix(prefix), own, most=1)
    return f"unknown {what} {name}; {f'nearest: {prefix}{near[0]}' if near else 'no similar name exists'} (see --help)"


def _parsed(found: Setting, text: str, given_as: str) -> Any:
    try:
        return found.value.parse(text)
    except ValueError as error:
        if text in found.gone:
            raise errors.SettingsError(f"{given_as}: {text!r} was removed: {found.gone[text]}") from None
        near = f" (nearest: {error})" if str(error) else ""
        raise errors.SettingsError(
            f"{given_as}: got {text!r}, expected {found.value.expected(found.unit)}{near}"
        ) from None


def _build(cls: type[Any], values: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        here = (*path, field.name)
        if dataclasses.is_dataclass(hints[field.name]):
            arguments[field.name] = _build(hints[field.name], values, here)
        elif here in values:
            arguments[field.name] = values[here]
    try:
        return cls(**arguments)
    except ValueError as error:  # a __post_init__ that compares settings with each other
        raise errors.SettingsError(str(error)) from None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Flags --http-..."""

    of_program: ClassVar[bool] = True
    host: str = setting("127.0.0.1", help="address of /healthz, /readyz and /metrics")
    port: int = setting(0, help="its port; 0 a free one, -1 none", minimum=-1, maximum=65535)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Flags --log-..."""

    of_program: ClassVar[bool] = True
    level: str = setting("info", help="minimum level of logged messages", choices=("debug", "info", "warning", "error"))
    json: bool | None = setting(None, help="JSON log lines", why="JSON unless stderr is a terminal")

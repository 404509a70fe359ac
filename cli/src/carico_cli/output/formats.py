"""`-o json|wide`, as kubectl has it: one flag for every command whose answer scripts read."""

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import orjson


class Output(enum.StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


def flag(*kinds: Output) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -o, and --json as a short form of `-o json`; the command is given `output`."""
    shown = " or ".join(f"{kind} ({_MEANING[kind]})" for kind in kinds)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*arguments: Any, output: str | None, as_json: bool, **named: Any) -> Any:
            if as_json and output not in (None, Output.JSON):
                raise click.UsageError(f"--json and -o {output}: got both, expected one of them")
            chosen = Output.JSON if as_json else Output(output or Output.TEXT)
            return function(*arguments, output=chosen, **named)

        command = click.option("--json", "as_json", is_flag=True, help="Same as -o json.")(command)
        choice = click.Choice([kind.value for kind in kinds])
        return click.option("-o", "--output", type=choice, help=f"Print {shown} (default: text).")(command)

    return decorate


def json_text(answer: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON, indented."""
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()


_MEANING = {Output.JSON: "for scripts", Output.WIDE: "more columns, every row"}

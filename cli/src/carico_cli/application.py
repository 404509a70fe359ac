"""The `carico` command: a local cluster in one word, and what one does with it."""

import asyncio
import importlib
import sys

import click

from carico_cli import environment, settings
from carico_core.domain import errors
from carico_core.runtime import logs as log_setup

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
PROGRAM = "carico"
# In the order of the help; where each is.
COMMANDS = {
    "demo": "demo:command",
    "up": "lifecycle:up",
    "status": "status:command",
    "top": "top.command:command",
    "submit": "submit:command",
    "explain": "explain.command:command",
    "capacity": "capacity:command",
    "logs": "logs:command",
    "web": "web:command",
    "env": "env:command",
    "decode": "decode:command",
    "targets": "targets:command",
    "record": "record:command",
    "replay": "replay:command",
    "evaluate": "evaluate:command",
    "compare": "compare:command",
    "doctor": "doctor.command:command",
    "bus-config": "bus_config:command",
    "down": "lifecycle:down",
}
# What an image that needs them not leaves out; the commands that do are not there either.
LEFT_OUT = ("carico_twin", "matplotlib")


class Commands(click.Group):
    """Commands that are imported when they are asked for: `carico env` need not wait for what `evaluate` runs on."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        try:
            command: click.Command = getattr(importlib.import_module(f"carico_cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in LEFT_OUT:
                return None
            raise
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        """As click does, but a misspelt name's nearest is looked for among all commands, imported or not."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="carico-cli", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context) -> None:
    """CARICO on this machine: a cluster that schedules by learned capacity, on Pods that really run."""
    context.obj = settings.read(is_terminal=sys.stdout.isatty())
    environment.check(context.obj.environ)


def run() -> int:
    """The exit code: 0 done, 1 failed, 2 a user's mistake. Raises `KeyboardInterrupt` where Ctrl-C ended it."""
    log_setup.setup(service=PROGRAM, json=False, level="error")
    try:
        code = cli.main(standalone_mode=False, prog_name=PROGRAM)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return EXIT_USER_ERROR
    except click.ClickException as error:
        print(f"{PROGRAM}: {error.format_message()}", file=sys.stderr)
        return EXIT_USER_ERROR
    except (click.Abort, asyncio.CancelledError):
        raise KeyboardInterrupt from None
    except errors.CaricoError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_USER_ERROR if isinstance(error, errors.UserError) else EXIT_FAILED
    except BrokenPipeError:
        # `carico status | head`: nobody reads on.
        sys.stderr.close()
        return EXIT_FAILED
    return code if isinstance(code, int) else 0

"""The `carico` command: a local cluster in one word, and what one does with it."""

import asyncio
import sys

import click

from carico_cli import demo, env, evaluate, lifecycle, logs, record, replay, settings, status, submit
from carico_core.domain import errors
from carico_core.runtime import logs as log_setup

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
PROGRAM = "carico"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="carico-cli", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context) -> None:
    """CARICO on this machine: a cluster that schedules by learned capacity, on Pods that really run."""
    context.obj = settings.read(is_terminal=sys.stdout.isatty())


for command in (
    demo.command, lifecycle.up, status.command, submit.command, logs.command, env.command,
    record.command, replay.command, evaluate.command, lifecycle.down,
):  # fmt: skip
    cli.add_command(command)


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

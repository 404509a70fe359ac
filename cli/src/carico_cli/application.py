"""The `carico` command: its list of commands, and how each ends."""

import errno
import importlib
import importlib.util
import os
import sys

import click

from carico_cli.shell import exits
from carico_core.domain import errors, names

PROGRAM = "carico"
# The sections of the help: where each command is, and its line in the help, which must fit into 80 columns.
_SECTIONS = {
    "Run a cluster": {
        "demo": ("jobs.demo:command", "Start a cluster, run a job, write a report, clean up."),
        "up": ("clusters.lifecycle:up", "Start a cluster in the background."),
        "down": ("clusters.lifecycle:down", "End a cluster and remove everything it left."),
        "list": ("clusters.listing:command", "List the clusters of this machine."),
        "use": ("clusters.integrations:use", "Start a shell, or run one command, that means a cluster."),
        "env": ("clusters.integrations:env", 'Print exports for a shell: eval "$(carico env)".'),
    },
    "Submit and watch": {
        "submit": ("jobs.submit:command", "Submit a job of Pods."),
        "status": ("clusters.status:command", "Show services, nodes and jobs."),
        "top": ("top.command:command", "Show nodes, jobs, decisions and services live."),
        "web": ("clusters.web:command", "Serve the live page for a browser."),
        "logs": ("clusters.logs:command", "Show the log of a service."),
        "reschedule": ("rescheduling.command:command", "Move running Pods to where they talk and where there is room."),
    },
    "Explain": {
        "explain": ("explain.command:command", "Explain a Pod's placement, a node's capacity, a job."),
        "capacity": ("explain.capacity:command", "Show how many more Pods fit, and what limits them."),
        "recommend": ("recommend.command:command", "Show requests and limits for what Pods really use."),
        "doctor": ("doctor.command:command", "Find what is wrong with a cluster."),
    },
    "Measure": {
        "compare": ("jobs.compare:command", "Compare with kube-scheduler on running Pods."),
        "evaluate": ("evaluation.command:command", "Compare schedulers in simulated clusters."),
        "record": ("recordings.record:command", "Record a node's samples and Pod events."),
        "replay": ("recordings.replay:command", "Run a recording through an estimator."),
    },
    "Connect other tools": {
        "targets": ("clusters.integrations:list_targets", "List the services for Prometheus."),
        "decode": ("clusters.integrations:decode", "Decode the model of the cluster for nats sub."),
        "bus-config": ("clusters.bus_config:command", "Write keys and rights for NATS."),
    },
}
_LISTED = {name: listed for section in _SECTIONS.values() for name, listed in section.items()}
COMMANDS = {name: where for name, (where, _) in _LISTED.items()}
# With it, one wrong letter of two is still a near miss.
_ALIKE = 0.5
# What commands of earlier versions took, with what replaces it.
_REMOVED = {
    "--beside": "give its file to --compare-with",
    "--node-base": "kubelet nodes are namespaces of this machine, and need no image",
    "loopback": "the bus of `carico up` has a password (`carico env`); for a bus of your own: callout or static",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Commands that need a package which a container image may leave out.
NEEDS = {"evaluate": "carico_twin"}


class Commands(click.Group):
    """Import a command when it is used: the help imports none, `carico env` not those of `evaluate`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        width = max(map(len, COMMANDS))
        for section, listed in _SECTIONS.items():
            rows = [(name.ljust(width), what) for name, (_, what) in listed.items() if _is_installed(name)]
            with formatter.section(section):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS or not _is_installed(cmd_name):
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        try:
            command: click.Command = getattr(importlib.import_module(f"carico_cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            raise errors.EnvironmentUnfit(
                f"the Python package {error.name!r} is not installed, as after an update of CARICO: run `make install`"
            ) from error
        command.short_help = _LISTED[cmd_name][1]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        """Resolve as click does, but suggest the nearest of all commands, imported or not."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None


def _is_installed(name: str) -> bool:
    """Return whether the package that a command needs is installed; importing it would make the help slow."""
    return name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="carico-cli", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context) -> None:
    """CARICO on this machine: a cluster that schedules by learned capacity, with Pods that really run."""
    # Imported here: the help needs none of them, and they take longer than all the rest.
    from carico_cli.shell import settings
    from carico_core.runtime.observe import logs

    logs.setup(service=PROGRAM, json=False, level="error")
    # The command's own modules are imported by now.
    exits.restore_interrupts()
    context.obj = settings.read(is_terminal=sys.stdout.isatty())
    settings.check(context.obj.environ)


def _hint(error: click.ClickException) -> str:
    """Return what replaces a removed option or choice, the choice that was probably meant, or where options belong."""
    if isinstance(error, click.NoSuchOption) and error.option_name in _REMOVED:
        return f" It was removed: {_REMOVED[error.option_name]}"
    if isinstance(error, click.BadParameter) and error.param is not None and isinstance(error.param.type, click.Choice):
        got = error.message.split("'")[1:2]
        if got and got[0] in _REMOVED:
            return f" It was removed: {_REMOVED[got[0]]}"
        choices = map(str, error.param.type.choices)
        near = names.nearest(got[0].lower(), choices, most=1, alike=_ALIKE) if got else []
        return f" Did you mean {near[0]!r}?" if near else ""
    if (
        isinstance(error, click.UsageError)
        and "unexpected extra argument" in error.message
        and _names_cluster(error.ctx)
    ):
        return ": a cluster is named by --name"
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent is not None:
        return ""
    return f" Options come after the command: `{PROGRAM} COMMAND {error.option_name} ...`"


def _names_cluster(context: click.Context | None) -> bool:
    return context is not None and any(each.name == "name" for each in context.command.params)


def _complain(why: str) -> None:
    """Print the line with which a command fails. It may quote an answer of the API, or a file."""
    # Imported here: the help does not need it.
    from carico_cli.output import formats

    print(f"{PROGRAM}: {formats.line(why)}", file=sys.stderr)


def run() -> int:
    """Run the command; return 0 done, 1 failed, 2 a user's mistake. Raises `KeyboardInterrupt` for Ctrl-C."""
    try:
        code = cli.main(standalone_mode=False, prog_name=PROGRAM)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return exits.USER_ERROR
    except click.ClickException as error:
        # click puts each choice on a line of its own.
        _complain(" ".join(error.format_message().split()) + _hint(error))
        return exits.USER_ERROR
    except (click.Abort, exits.cancelled()):
        raise KeyboardInterrupt from None
    except errors.CaricoError as error:
        _complain(str(error))
        return exits.USER_ERROR if isinstance(error, errors.UserError) else exits.FAILED
    except BrokenPipeError:
        # `carico status | head`: the reader has closed the pipe.
        sys.stderr.close()
        return exits.FAILED
    except OSError as error:
        # A command reports a file of its own. `carico replay ... > fit.txt` on a full disk ends here.
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        # At its end Python writes what is left in the buffer, and would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{PROGRAM}: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return exits.FAILED
    return code if isinstance(code, int) else 0

"""`carico recommend [WORKLOAD]`."""

import enum
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.live import addresses
from carico_cli.output import charts, formats
from carico_cli.recommend import asking, choosing, contradictions, manifests, picture, text
from carico_cli.shell import exits, options, settings, user_files
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

NOTHING_YET = (
    "no class of Pods has been measured yet. A class is recommended about 10 s after its first Pod starts, on nodes "
    "with cgroups whose agents know the Pods' classes (CARICO_AGENT_POD_CLASSES is not none): wait, and run this again"
)

Row = Mapping[str, Any]
# Whether something exists; None if that is not known.
Exists = Callable[[str], bool | None]


class Form(enum.StrEnum):
    """A format of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    PATCH = "patch"


@click.command("recommend")
@click.argument("workload", required=False, metavar="[WORKLOAD]")
@click.option("--namespace", "-n", help="Classes of this namespace only (default: all).")
@click.option("--class", "pod_class", help="One class by its whole name, as -o wide shows it.")
@click.option(
    "--percentile", type=options.FloatRange(0.0, 1.0, min_open=True), default=0.95, show_default=True,
    help="Share of the time for which the CPU request suffices, before the margin.",
)  # fmt: skip
@click.option(
    "--margin", type=options.FloatRange(0.0, 10.0), default=0.15, show_default=True,
    help="Safety margin, as a share of the amount; CPU is at most half of it above the highest amount seen.",
)  # fmt: skip
@click.option(
    "--plot", type=user_files.PATH, metavar="FILE",
    help="Also draw the distribution of one class, and what is requested today and recommended (.svg or .png).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="With -o patch: patch classes that are flagged, too.")
@which.flags
@click.option(
    "-o", "--output", type=click.Choice([form.value for form in Form]), default=Form.TABLE.value, show_default=True,
    help="wide for whole names and every flagged class, json for scripts, yaml for a resources block, patch for "
    "kubectl commands.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Same as -o json.")
@click.pass_obj
def command(
    context: settings.Context, /, workload: str | None, namespace: str | None, pod_class: str | None,
    percentile: float, margin: float, plot: pathlib.Path | None, force: bool, output: str, as_json: bool, **place: Any,
) -> int:  # fmt: skip
    """Show requests and limits for what Pods really use: of all classes, of one, or of WORKLOAD (NAME, KIND/NAME)."""
    if workload is not None and pod_class is not None:
        raise errors.SettingsError(f"{workload} and --class: got both, expected one of them")
    if as_json and output not in (Form.TABLE, Form.JSON):
        raise click.UsageError(f"--json and -o {output}: got both, expected one of them")
    if plot is not None:
        charts.check(plot)
    at = which.meant(context, which.Flags(**place)).where()()
    rule = {"percentile": percentile, "margin": margin}
    rows = asking.ask(at, rule)
    if not rows:
        raise errors.SettingsError(NOTHING_YET)
    rows = chosen(
        rows, workload=workload, namespace=namespace, pod_class=pod_class,
        has_namespace=lambda name: asking.exists(at, context.environ, f"/api/v1/namespaces/{name}"), at=at,
    )  # fmt: skip

    if plot is not None:
        if len(rows) != 1:
            raise errors.SettingsError(f"--plot: got {len(rows)} classes, expected one: name it with --class")
        picture.draw(asking.with_distribution(at, rule, rows[0]["class"]), plot)
    rows = _checked(rows, asking.rules(at, context.environ))
    match Form.JSON if as_json else Form(output):
        case Form.JSON:
            formats.say(formats.json_text({"rule": rule, "classes": rows}))
        case Form.YAML:
            formats.say("\n---\n".join(manifests.yaml_text(row) for row in rows))
        case Form.PATCH:
            has = functools.partial(asking.exists, at, context.environ)
            return _say_patches(rows, forced=force, exists=has, kubectl=at.kubectl)
        case Form.TABLE | Form.WIDE as form:
            now_ns, wide = clocks.SystemClock().wall_ns(), form is Form.WIDE
            is_one = len(rows) == 1 and (workload or pod_class)
            formats.say(text.detail(rows[0], now_ns=now_ns) if is_one else text.table(rows, now_ns=now_ns, wide=wide))
    return 0


def _say_patches(rows: Sequence[Row], *, forced: bool, exists: Exists, kubectl: str) -> int:
    """Print the commands that patch the classes, and which cannot be patched. Return the exit code.

    Raises `SettingsError` if the only one cannot be patched.
    """

    def is_cron_job(row: Row) -> bool:
        one = choosing.parse(row["class"])
        path = f"/apis/batch/v1/namespaces/{one.namespace}/cronjobs/{one.name}"
        return one.kind == "Job" and exists(path) is True

    code = 0
    for row in rows:
        try:
            formats.say(manifests.patch_text(row, forced=forced, is_cron_job=is_cron_job(row), kubectl=kubectl))
        except errors.SettingsError as error:
            if len(rows) == 1:
                raise
            formats.say(f"carico: {formats.line(str(error))}", err=True)
            code = exits.FAILED
    return code


def _checked(rows: Sequence[Row], rules: asking.Rules) -> list[Row]:
    """Return the rows with what the rules of their namespaces refuse."""
    if rules.unchecked is not None:
        formats.say(f"carico: LimitRanges and quotas are not all checked: {rules.unchecked}", err=True)
    return [{**row, "contradicts": contradictions.of_row(row, rules.limit_ranges, rules.quotas)} for row in rows]


def chosen(
    rows: Sequence[Row], *, workload: str | None, namespace: str | None, pod_class: str | None,
    has_namespace: Exists, at: addresses.Address = addresses.OF_SHELL,
) -> list[Row]:  # fmt: skip
    """Return the rows that the user asks for, at least one. Raises `SettingsError`."""
    found = list(rows)
    if namespace is not None:
        found = choosing.of_namespace(rows, namespace)
        if not found:
            raise errors.SettingsError(_nothing_in(namespace, rows, has_namespace(namespace)))
    if pod_class is not None:
        return choosing.of_class(found, pod_class, at.carico("recommend"))
    return found if workload is None else choosing.of_workload(found, workload, at.carico("recommend"))


def _nothing_in(namespace: str, rows: Sequence[Row], is_there: bool | None) -> str:
    measured = f"measured are classes of {', '.join(choosing.namespaces(rows))}"
    if is_there is False:
        near = choosing.nearest(namespace, {each: each for each in choosing.namespaces(rows)})
        return f"-n: got {namespace!r}, but there is no such namespace{near}; {measured}"
    return f"-n: no Pod of namespace {namespace!r} has been measured yet (it takes about 10 s); {measured}"

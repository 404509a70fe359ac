"""The panel of schedulers that share the work: a line for each."""

from collections.abc import Sequence

from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.top.words import spans
from carico_core.domain import amounts, messages, names

# What differs between names is at their end. A bar has five more cells for its number.
_NAME_CELLS, _BAR_CELLS = 14, 6


def lines(picture: pictures.Picture, width: int = 80) -> list[spans.Line]:
    """Return the panel's lines: all members together, then each one."""
    found = picture.members
    recent = sum(each.report.recent for each in found if each.report is not None)
    shown = names.shown_of([each.replica for each in found])
    return [_together(found, recent), *(_member(each, shown[each.replica], recent) for each in found)]


def _together(found: Sequence[messages.Heartbeat], recent: int) -> spans.Line:
    reports = [each.report for each in found if each.report is not None]
    taking = sum(not each.is_leaving for each in found)
    sent = sum(each.stored + each.conflicts for each in reports)
    conflicts = f", {sum(each.conflicts for each in reports) / sent:.1%} conflicts" if sent else ""
    passed = [each.corrections for each in found if each.corrections is not None]
    handed, held = sum(len(each.handed) for each in passed), sum(len(each.held) for each in passed)
    orphans = max((each.orphans for each in reports), default=0)
    leads = any(each.has_lease for each in reports)
    return (
        (f"{taking} of {len(found)} decide", "" if taking == len(found) else "yellow"),
        (f"; {recent} claims/min{conflicts}", ""),
        (f"; {amounts.plural(handed, 'Pod')} to correct" if handed else "", "yellow"),
        (f"; room held for {held}" if held else "", ""),
        (f"; {amounts.plural(orphans, 'claim')} without a Pod" if orphans else "", "yellow"),
        ("" if leads else "; none holds the Lease", "yellow"),
    )


def _member(each: messages.Heartbeat, shown: str, recent: int) -> spans.Line:
    name: spans.Span = (spans.fitted(spans.clean(shown), _NAME_CELLS), "bold")
    report = each.report
    if report is None:
        return (name, (" leaves" if each.is_leaving else " does not report", "yellow"))
    if report.why_not:
        return (name, (f" takes no Pods: {spans.clean(report.why_not)}", "red"))
    view = "" if report.view_age_s is None else f", view {formats.duration(report.view_age_s)}"
    return (
        name, (" ", ""), *spans.bar(report.recent / recent if recent else None, _BAR_CELLS),
        (f"{report.recent:>6}/min{report.conflicts:>5} conflicts{report.requeued:>4} waits{view}", ""),
        (" Lease" if report.has_lease else "", "green"),
    )  # fmt: skip

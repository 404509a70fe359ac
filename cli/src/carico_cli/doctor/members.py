"""Schedulers that share the work: what each of them reports of itself, compared."""

import collections
from collections.abc import Sequence

from carico_cli.doctor import findings, places
from carico_core.domain import amounts, messages, names

WHAT = "sharing"
# A member that has committed nothing for so long, while the others committed this many claims for each member: Pods are
# shared out by hashes, so a member that works gets none of them with a chance of e^-10.
IDLE_S = 60.0
IDLE_CLAIMS_EACH = 10
# A watch in which nothing happens is renewed within 28 s. At 45 s the member stops.
VIEW_MOST_S = 30.0


def report(found: Sequence[messages.Heartbeat], *, place: places.Place) -> list[findings.Finding]:
    """Return what is wrong with the members, or one line if nothing is; nothing where one scheduler leads."""
    if not found:
        return []
    shown = names.shown_of([each.replica for each in found])
    reports = {shown[each.replica]: each.report for each in found if each.report is not None}
    taking = [shown[each.replica] for each in found if not each.is_leaving]
    wrong = [
        *_intruders(reports, place),
        *_names(reports),
        *_stopped(reports, place),
        *_idle({name: one for name, one in reports.items() if name in taking}, place),
        *_old(reports, place),
        *_orphans(reports, place),
    ]
    if wrong:
        return wrong
    holders = [name for name, one in reports.items() if one.has_lease]
    recent = sum(one.recent for one in reports.values())
    lease = f"{holders[0]} holds the Lease" if holders else "none holds the Lease now"
    claims = amounts.plural(recent, "claim")
    return [findings.ok(WHAT, f"{amounts.plural(len(taking), 'member')}; {lease}; {claims} in the last minute")]


_Reports = dict[str, messages.MemberReport]


def _intruders(reports: _Reports, place: places.Place) -> list[findings.Finding]:
    """Report a scheduler with `leader` among those with `shared`: the members stop for it."""
    holders = [names.replica_of(each) for each in _foreign(reports)]
    do = (
        "set CARICO_SCHEDULER_SHARING to the same value for all schedulers: stop all of them before you change it; "
        f"{place.log('scheduler')}"
    )
    return [
        findings.fail(
            WHAT, f"{holder} holds the Lease and is no member: members place no Pods until it has ended or shares", do
        )
        for holder in holders
    ]


def _names(reports: _Reports) -> list[findings.Finding]:
    by_names: dict[tuple[str, ...], list[str]] = collections.defaultdict(list)
    for name, one in reports.items():
        by_names[one.names].append(name)
    if len(by_names) < 2:
        return []
    shown = "; ".join(f"{','.join(served)}: {findings.names(members)}" for served, members in sorted(by_names.items()))
    do = (
        "give all schedulers the same CARICO_SCHEDULER_NAMES: what only the holder of the Lease may decide on waits if "
        "that one does not serve its name"
    )
    return [findings.warn(WHAT, f"members serve different schedulerNames: {shown}", do)]


def _stopped(reports: _Reports, place: places.Place) -> list[findings.Finding]:
    """Report members that may not commit, apart from those that stop for an intruder."""
    do = place.log("scheduler")
    by_reason: dict[str, list[str]] = collections.defaultdict(list)
    for name, one in reports.items():
        if one.why_not and one.intruder not in _foreign(reports):
            by_reason[one.why_not].append(name)
    return [
        findings.warn(WHAT, f"{findings.names(who)} take{'s' if len(who) == 1 else ''} no Pods: {why}", do)
        for why, who in by_reason.items()
    ]


def _foreign(reports: _Reports) -> list[str]:
    """Return who holds the Lease and is known to no member: one that a member knows has ended, and will be replaced."""
    named = [one.intruder for one in reports.values()]
    return sorted(set(named)) if all(named) else []


def _idle(reports: _Reports, place: places.Place) -> list[findings.Finding]:
    found = []
    total = sum(one.recent for one in reports.values())
    for name, one in reports.items():
        if one.recent == 0 and one.ready_s >= IDLE_S and total >= IDLE_CLAIMS_EACH * len(reports):
            detail = f"{name} committed nothing in the last minute, while others committed {total} claims"
            do = f"restart it, so that the others take its share; before that, see {place.log('scheduler')}"
            found.append(findings.warn(WHAT, detail, do))
    return found


def _old(reports: _Reports, place: places.Place) -> list[findings.Finding]:
    do = f"it loses the Kubernetes API, and stops at 45 s: {place.log('scheduler')}"
    return [
        findings.warn(WHAT, f"{name} decides by a view of the API that is {one.view_age_s:.0f} s old", do)
        for name, one in reports.items()
        if one.view_age_s is not None and one.view_age_s > VIEW_MOST_S and not one.why_not
    ]


def _orphans(reports: _Reports, place: places.Place) -> list[findings.Finding]:
    # Each member counts the same claims.
    count = max((one.orphans for one in reports.values()), default=0)
    if not count:
        return []
    do = (
        "the holder of the Lease ends them; it needs the right to patch pods/status: "
        f"{place.log('scheduler')}; `nats sub 'carico.v1.claimed.>'` shows claims"
    )
    return [findings.warn(WHAT, f"{amounts.plural(count, 'claim')} without a bound Pod hold room on nodes", do)]

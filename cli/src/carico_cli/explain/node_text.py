"""Why a node's capacity is what it is, as text."""

from collections.abc import Mapping
from typing import Any

from carico_cli.output import formats, words
from carico_core.domain import amounts

Row = Mapping[str, Any]
SHOWN = 12
_CAPS = {"limit": "temporary limit", "pod_limit": "kubelet's Pod limit", "pods_per_core": "limit per core"}


def text(answer: Row, *, wide: bool = False) -> str:
    """Return all that is known of the node, in lines of at most 80 columns."""
    shown = None if wide else SHOWN
    lines = [_headline(answer), *_of_api(answer), *_of_advertisement(answer), *_of_trust(answer)]
    lines += [*_of_dimensions(answer), *_of_caps(answer), *_of_classes(answer, shown), *_of_pods(answer, shown)]
    return "\n".join(lines + words.behind(answer))


def _headline(answer: Row) -> str:
    refused = answer["refused_by"]
    if refused is not None:
        return "\n".join(
            words.paragraph(f"{answer['node']} takes no Pod: {refused['means']} ({refused['detail']})", "")
        )
    return (
        f"{answer['node']} takes {answer['free']:.1f} more typical Pods; "
        f"limited by: {_CAPS.get(answer['bottleneck'], answer['bottleneck'])}"
    )


def _of_api(answer: Row) -> list[str]:
    has = answer["allocatable"]
    state = "ready" if answer["ready"] else "not ready"
    taints = ", ".join(f"{each['key']}:{each['effect']}" for each in answer["taints"]) or "none"
    return words.paragraph(
        f"{state}{'' if answer['schedulable'] else ', cordoned'}; allocatable {has['cores']:g} cores, "
        f"{words.amount('memory', has['bytes'])}, {has['pods']} Pods; taints: {taints}"
    )


def _of_advertisement(answer: Row) -> list[str]:
    said = answer["advertisement"]
    if said is None:
        return words.paragraph("its agent has advertised nothing")
    most = "" if said["limit"] is None else f", at most {said['limit']} for now"
    return words.paragraph(
        f"advertised {formats.duration(answer['age_s'])} ago ({answer['freshness']}): capacity "
        f"{amounts.pods_with_sd(said['capacity'], said['capacity_sd'])}, {said['mode']}; "
        f"it counts {amounts.plural(said['pods'], 'Pod')}{most}"
    )


def _of_trust(answer: Row) -> list[str]:
    held = answer["reserved_by"]
    names = ", ".join(f"{each['pod']} ({formats.duration(each['age_s'])})" for each in held[:SHOWN])
    more = answer["reserved"] - min(len(held), SHOWN)
    names += f" and {more} more" if more > 0 else ""
    lines = words.paragraph(f"reserved: {amounts.plural(answer['reserved'], 'Pod')}" + (f": {names}" if held else ""))
    trust = answer["trust"]
    if trust["is_suspect"]:
        lines += words.paragraph(
            f"suspect: its advertisements do not cover a Pod placed there {trust['uncovered_s']:.0f} s ago; "
            f"{trust['suspect_after_s']:g} s are allowed"
        )
    return lines


def _of_dimensions(answer: Row) -> list[str]:
    rows = []
    for each in answer["dimensions"]:
        name, cost, usage = each["name"], each["cost"], each["usage"]
        rows.append(
            (
                name,
                "-" if usage is None else f"{usage:.0%}",
                words.amount(name, each["headroom"]),
                words.amount(name, each["reserved"]),
                "-" if cost is None else amounts.text_with_sd(name, cost["mean"], cost["sd"]),
            )
        )
    headings = ("DIMENSION", "USED", "HEADROOM", "RESERVED", "A POD COSTS")
    return ["", *formats.aligned(headings, rows, width=words.WIDTH)] if rows else []


def _fits(pods: float | None) -> str:
    """Return how many Pods fit: none where a dimension is overcommitted.

    >>> _fits(-1.4), _fits(2.25)
    ('0.0', '2.2')
    """
    return formats.number(None if pods is None else max(pods, 0.0), 1)


def _of_caps(answer: Row) -> list[str]:
    rows = [each for each in answer["bounds"] if each["what"] in _CAPS]
    return ["", *(f"{_CAPS[each['what']]}: {_whole(each['pods'])} more ({each['detail']})" for each in rows)]


def _whole(pods: float) -> str:
    """Return a number of Pods that is mostly a whole one.

    >>> _whole(7.0), _whole(2.25)
    ('7', '2.2')
    """
    return f"{pods:.1f}".removesuffix(".0")


def _of_classes(answer: Row, shown: int | None) -> list[str]:
    rows = [
        (
            words.class_name(str(each["class"])),
            str(each["pods"]),
            _fits(each["free"]),
            each["bottleneck"] or "-",
            ", ".join(f"{name} {words.amount(name, cost)}" for name, cost in each["cost_plus"].items()),
        )
        for each in sorted(answer["classes"], key=lambda each: -each["pods"])[:shown]
    ]
    headings = ("CLASS", "RUNNING", "FITS", "BY", "COSTS AT MOST")
    return ["", *formats.aligned(headings, rows, width=words.WIDTH)] if rows else []


def _of_pods(answer: Row, shown: int | None) -> list[str]:
    said = [f"{count} of {name}" for name, count in list(answer["pods_by_class"].items())[:shown]]
    if answer["baseline_pods"]:
        said.append(f"{answer['baseline_pods']} of the node's own (DaemonSets, static Pods)")
    return ["", *words.paragraph(f"placed there: {', '.join(said)}", "")] if said else []

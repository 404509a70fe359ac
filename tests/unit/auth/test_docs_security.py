"""The table of docs/security.md is what `carico_core.wire.roles` says."""

import pathlib
import re

from carico_core.wire import roles

PAGE = pathlib.Path(__file__).parents[3] / "docs/security.md"
BEGIN, END = "<!-- roles: begin -->\n", "<!-- roles: end -->"
_NODE = "a-node"


# Roles that may do all that another may, and more.
_MORE_THAN = {roles.Role.CLI: roles.Role.READER, roles.Role.OWNER: roles.Role.CLI}
# What stands once in place of many.
_SHORT = (
    (r"`\$SRV\.PING` .*?`\$SRV\.STATS\.(carico-\w+)\.\*`", r"`$SRV.PING|INFO|STATS[.\1[.*]]`"),
    (r"`\$SRV\.PING` .*?`\$SRV\.STATS\.>`", r"`$SRV.PING|INFO|STATS[.>]`"),
    (r"`\$JS\.API\.STREAM\.INFO\.CARICO_CAPACITY` .*?`\$JS\.API\.STREAM\.CREATE\.KV_carico_model`",
     r"`$JS.API.STREAM.INFO|CREATE` of each stream"),
    (r"`\$JS\.API\.DIRECT\.GET\.CARICO_CAPACITY` .*?`\$JS\.API\.DIRECT\.GET\.KV_carico_model\.>`",
     r"`$JS.API.DIRECT.GET` of capacity, decisions and model"),
    (r"`\$JS\.API\.STREAM\.MSG\.GET\.CARICO_CAPACITY` .*?`\$JS\.API\.STREAM\.MSG\.GET\.KV_carico_model`",
     r"`$JS.API.STREAM.MSG.GET` of the same"),
)  # fmt: skip


def table() -> str:
    """Each role's rights, as the page has them."""
    lines = ["| role | publishes | subscribes | answers |", "|---|---|---|---|"]
    for role in roles.Role:
        found, less = _of(role), _of(_MORE_THAN[role]) if role in _MORE_THAN else None
        more = f"as {_MORE_THAN[role].value}, and " if less else ""
        cells = [
            more + _code(tuple(each for each in had if less is None or each not in known))
            for had, known in (
                (found.publish, less.publish if less else ()),
                (found.subscribe, less.subscribe if less else ()),
            )
        ]
        answers = "yes" if found.answers else "no"
        lines.append(f"| **{role.value}**: {roles.MEANING[role]} | {' | '.join(cells)} | {answers} |")
    return "\n".join(lines) + "\n"


def _of(role: roles.Role) -> roles.Permissions:
    return roles.permissions(role, _NODE if role is roles.Role.AGENT else None)


def _code(patterns: tuple[str, ...]) -> str:
    text = " ".join(f"`{pattern.replace(_NODE, 'N')}`" for pattern in patterns) or "nothing"
    for many, one in _SHORT:
        text = re.sub(many, one, text)
    return text.replace("|", "\\|")


def test_docs_security_lists_every_role() -> None:
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    assert text[begin:end] == table(), f"put this between the marks:\n{table()}"

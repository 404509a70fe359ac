"""Every right on the bus that `carico_core.wire.roles` grants: a row for each subject, a column for each role."""

from collections.abc import Iterator

from carico_core.wire import roles

PUBLISHES, SUBSCRIBES = "P", "S"
# A node of this name stands for the node of the agent.
_NODE, _SHOWN_NODE = "n", "N"


def rights(node: str) -> dict[str, dict[roles.Role, str]]:
    """Return what each role may do with each subject that any role may use: P, S, both or nothing.

    node: the agent's node.
    """
    granted = {role: roles.permissions(role, node if role is roles.Role.AGENT else None) for role in roles.Role}
    found: dict[str, dict[roles.Role, str]] = {}
    for each in granted.values():
        for pattern in (*each.publish, *each.subscribe):
            found.setdefault(pattern, {role: may(granted[role], pattern) for role in roles.Role})
    return found


def may(permissions: roles.Permissions, subject: str) -> str:
    """Return what the permissions allow with a subject: P, S, both or nothing."""
    publishes = PUBLISHES if roles.allows(permissions.publish, subject) else ""
    return publishes + (SUBSCRIBES if roles.allows(permissions.subscribe, subject) else "")


def tables() -> str:
    """Return the roles and their rights as Markdown. Subjects that differ in one token share a row where possible."""
    lines = ["| role | is | answers |", "|---|---|---|"]
    for role in roles.Role:
        answers = "what it is asked" if roles.permissions(role).answers else ""
        lines.append(f"| {role.value} | {roles.MEANING[role]} | {answers} |".replace("  ", " "))
    lines += ["", f"| subject | {' | '.join(roles.Role)} |", "|---" * (1 + len(roles.Role)) + "|"]
    for subject, *cells in sorted(_merged(rights(_NODE))):
        lines.append(f"| `{subject}` | {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines)


def _merged(found: dict[str, dict[roles.Role, str]]) -> Iterator[tuple[str, ...]]:
    rows = [(tuple(_shown(pattern)), tuple(cells.values())) for pattern, cells in found.items()]
    for position in range(max(len(tokens) for tokens, _ in rows)):
        groups: dict[_Key, list[str]] = {}
        for tokens, cells in rows:
            if position >= len(tokens):
                groups[tokens, None, (), cells] = []
                continue
            token = tokens[position]
            # A wildcard, or one node, is another right than a name.
            kind = token if token in ("*", ">", _SHOWN_NODE) else ""
            groups.setdefault((tokens[:position], kind, tokens[position + 1 :], cells), []).append(token)
        rows = [
            (before if kind is None else (*before, _one_of(tokens), *after), cells)
            for (before, kind, after, cells), tokens in groups.items()
        ]
    for tokens, cells in rows:
        yield (".".join(tokens), *cells)


# The tokens before the one that may differ, its kind (None: no such token), the tokens after it, and the rights.
_Key = tuple[tuple[str, ...], str | None, tuple[str, ...], tuple[str, ...]]


def _one_of(tokens: list[str]) -> str:
    return tokens[0] if len(tokens) == 1 else "{" + ",".join(tokens) + "}"


def _shown(pattern: str) -> list[str]:
    return [_SHOWN_NODE if token == _NODE else token for token in pattern.split(".")]

"""What each role may do on the bus, against a table written by hand; NATS itself judges in the integration tests."""

import pytest

from carico_core.domain import errors
from carico_core.wire import accounts, roles, subjects
from tests.tools import bus_rights


def of(role: roles.Role) -> roles.Permissions:
    return roles.permissions(role, bus_rights.NODE if role is roles.Role.AGENT else None)


@pytest.mark.parametrize("role", roles.Role)
def test_a_role_may_publish_what_the_table_says_and_nothing_else(role: roles.Role) -> None:
    allowed = {subject for subject in bus_rights.PUBLISH if roles.allows(of(role).publish, subject)}
    assert allowed == {subject for subject, who in bus_rights.PUBLISH.items() if role in who}


@pytest.mark.parametrize("role", roles.Role)
def test_a_role_may_listen_to_what_the_table_says_and_nothing_else(role: roles.Role) -> None:
    allowed = {subject for subject in bus_rights.SUBSCRIBE if roles.allows(of(role).subscribe, subject)}
    assert allowed == {subject for subject, who in bus_rights.SUBSCRIBE.items() if role in who}


def test_no_two_roles_share_an_inbox() -> None:
    inboxes = [roles.inbox(role) for role in roles.Role]
    assert not [(a, b) for a in inboxes for b in inboxes if a != b and f"{b}.".startswith(f"{a}.")]
    assert len(set(inboxes)) == len(inboxes)


def test_each_role_that_asks_may_hear_its_own_answers_and_agents_ask_nothing() -> None:
    for role in roles.MEMBERS:
        assert roles.allows(of(role).subscribe, roles.inbox(role) + ".x") is (role is not roles.Role.AGENT)


def test_agents_and_readers_have_accounts_of_their_own() -> None:
    own = {role: roles.account(role) for role in roles.MEMBERS if roles.account(role) is not accounts.Account.CORE}
    assert own == {roles.Role.AGENT: accounts.Account.AGENTS, roles.Role.READER: accounts.Account.READERS}


def test_no_answer_ever_reaches_the_account_of_agents() -> None:
    # It would land on the subject that its asker named, and that may be one which the account exports.
    assert not [flow for flow in accounts.CROSSINGS if flow.is_service and accounts.Account.AGENTS in flow.to]


def test_only_reports_and_answers_leave_the_account_of_agents() -> None:
    of_agents = [flow for flow in accounts.CROSSINGS if flow.source is accounts.Account.AGENTS]
    said = {flow.subject for flow in of_agents if not flow.is_service}
    assert said == {f"carico.v1.{kind}.*" for kind in ("capacity", "subspace", "usage", "pods", "traffic")}
    asked = {flow.subject for flow in of_agents if flow.is_service}
    assert all("agent" in subject for subject in asked)


def test_nothing_leaves_the_account_of_readers() -> None:
    assert not [flow for flow in accounts.CROSSINGS if flow.source is accounts.Account.READERS]


def test_nothing_of_jetstream_crosses_accounts() -> None:
    assert not [flow for flow in accounts.CROSSINGS if flow.subject.startswith("$JS")]


def test_who_answers_may_answer_and_who_does_not_may_not() -> None:
    answering = {role for role in roles.Role if of(role).answers}
    asking = {roles.Role.RECOMMENDER, roles.Role.READER, roles.Role.CLI, roles.Role.OWNER}
    assert answering == set(roles.Role) - asking


def test_web_pages_are_readers_and_nothing_else() -> None:
    assert [role for role in roles.Role if roles.WEBSOCKET in of(role).connections] == [roles.Role.READER]


def test_every_role_has_a_meaning_that_people_read() -> None:
    assert set(roles.MEANING) == set(roles.Role)


@pytest.mark.parametrize("node", ["", "*", ">", "a.>", "A", "a b", "a_b", "x" * 254])
def test_a_node_that_is_none_gets_no_rights(node: str) -> None:
    with pytest.raises(errors.BadName):
        roles.permissions(roles.Role.AGENT, node)


def test_a_node_with_dots_is_one_token() -> None:
    allowed = roles.permissions(roles.Role.AGENT, "ip-1.ec2.internal")
    assert subjects.capacity("ip-1.ec2.internal") in allowed.publish
    assert not roles.allows(allowed.publish, subjects.capacity("ip-1"))


def test_only_agents_belong_to_a_node() -> None:
    with pytest.raises(ValueError, match="only agents"):
        roles.permissions(roles.Role.READER, "n1")


@pytest.mark.parametrize(
    ("pattern", "subject", "covered"),
    [("a.b", "a.b", True), ("a.b", "a", False), ("a", "a.b", False), ("a.*", "a.b", True), ("a.*", "a.b.c", False),
     ("a.*", "a", False), ("a.>", "a.b.c", True), ("a.>", "a", False), (">", "a", True), ("a.*", "a.*", True),
     ("a.*", "a.>", True), ("a.>", "a.*", True), ("a.>", "a.>", True), ("a.b", "a.*", False), ("a.b", "a.>", False)],
)  # fmt: skip
def test_a_pattern_covers_what_nats_lets_it_cover(pattern: str, subject: str, covered: bool) -> None:
    assert roles.allows((pattern,), subject) is covered


def test_readers_see_plans_and_moves_and_cannot_apply_or_pause() -> None:
    asked = {flow.subject for flow in accounts.CROSSINGS if "query.rescheduler" in flow.subject}
    verbs = ("plan.get", "moves.list", "pod.explain", "traffic.list")
    assert asked == {f"carico.v1.query.rescheduler.{verb}" for verb in verbs}

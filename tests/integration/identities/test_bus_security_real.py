"""The auth callout with a real kube-apiserver: its TokenReview, its node-bound tokens, its RBAC."""

import contextlib
from collections.abc import Iterator

import pytest
from nats.errors import Error as NatsError

from carico_core.wire import roles, subjects
from tests.contract.kubernetes import control_planes
from tests.tools import kubernetes, waiting
from tests.tools.api import real_tokens
from tests.tools.sites import security_site

AGENT = security_site.ACCOUNTS[roles.Role.AGENT]


@pytest.fixture(scope="module")
def api(request: pytest.FixtureRequest) -> control_planes.KubeApi:
    plane = request.getfixturevalue("real_control_plane")
    return control_planes.real(plane, kubernetes.programs("kubectl")["kubectl"].path)


@pytest.fixture(scope="module")
def site(
    api: control_planes.KubeApi, tmp_path_factory: pytest.TempPathFactory, real_control_plane: object
) -> Iterator[security_site.Site]:
    tokens = real_tokens.RealTokens(api)
    with security_site.running(tmp_path_factory.mktemp("site"), tokens=tokens) as found:
        yield found


async def is_refused(site: security_site.Site, token: str) -> bool:
    with contextlib.suppress(NatsError):
        async with security_site.raw(site.settings(token)):
            return False
    return True


async def test_the_agent_of_one_node_cannot_speak_for_another(site: security_site.Site) -> None:
    heard: list[str] = []
    async with (
        site.joined(roles.Role.SCHEDULER) as scheduler,
        site.joined(roles.Role.AGENT, "sec-a") as first,
        site.joined(roles.Role.AGENT, "sec-b") as second,
    ):
        await scheduler.subscribe(subjects.CAPACITY_ALL, lambda subject, _: heard.append(subject))
        await first.publish(subjects.capacity("sec-b"), b"a lie")
        await first.publish(subjects.capacity("sec-a"), b"own")
        await second.publish(subjects.capacity("sec-b"), b"own")
        await waiting.until(lambda: len(heard) == 2)
        assert sorted(heard) == [subjects.capacity("sec-a"), subjects.capacity("sec-b")]


async def test_every_role_gets_in_by_the_token_of_its_serviceaccount(site: security_site.Site) -> None:
    for role in roles.MEMBERS:
        node = "sec-a" if role is roles.Role.AGENT else None
        async with site.joined(role, node) as bus:
            assert bus.connected


async def test_tokens_that_are_not_good_are_refused(site: security_site.Site) -> None:
    tokens = site.tokens
    for token in (
        tokens.token(AGENT, node="sec-a", audience="https://kubernetes.default.svc.cluster.local"),
        tokens.token(AGENT),
        tokens.token("other/carico-agent", node="sec-a"),
    ):
        with pytest.raises(NatsError, match="Authorization Violation"):
            async with security_site.raw(site.settings(token)):
                raise AssertionError("let in")
    gone = tokens.token(AGENT, node="sec-gone")
    tokens.delete_pods_of("sec-gone")
    # kube-apiserver looks up Pods in a copy of its own, which is a moment behind, and remembers its answer for 10 s.
    assert await waiting.answered(lambda: is_refused(site, gone))


async def test_the_callout_may_review_tokens_and_see_the_pods_of_its_namespace(
    site: security_site.Site, api: control_planes.KubeApi
) -> None:
    me = f"system:serviceaccount:{real_tokens.AUTH_ACCOUNT.replace('/', ':')}"
    may = {}
    for group, resource, verb in (
        ("authentication.k8s.io", "tokenreviews", "create"), ("", "secrets", "get"), ("", "serviceaccounts", "list"),
        ("", "serviceaccounts/token", "create"), ("", "pods", "list"), ("", "nodes", "get"),
        ("", "pods/exec", "create"), ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ):  # fmt: skip
        name, _, part = resource.partition("/")
        attributes = {"group": group, "resource": name, "subresource": part, "verb": verb, "namespace": "carico"}
        body = {"spec": {"user": me, "groups": ["system:serviceaccounts", "system:authenticated"],
                         "resourceAttributes": attributes}}  # fmt: skip
        answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        may[resource] = answer.body["status"]["allowed"]
    assert [resource for resource, allowed in may.items() if allowed] == ["tokenreviews", "pods"]

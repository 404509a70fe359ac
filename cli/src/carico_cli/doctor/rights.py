"""Rights at the API: those of the person who installs, and those of the installed services."""

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from carico_cli.doctor import findings
from carico_core.domain import errors
from carico_core.runtime.kube import paged_lists

REVIEWS = "/apis/authorization.k8s.io/v1"


class Api(paged_lists.Api, Protocol):
    """The Kubernetes API."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        timeout_s: float = 10.0,
    ) -> Any:  # fmt: skip
        """Return the decoded answer."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A verb on a resource. `namespaced`: needed only in CARICO's own namespace."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespaced: bool = False

    def __str__(self) -> str:
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {resource}{'.' + self.group if self.group else ''}"

    def attributes(self, namespace: str) -> dict[str, str]:
        """Return the right as an access review states it."""
        stated = {"verb": self.verb, "resource": self.resource, "group": self.group, "subresource": self.subresource}
        return stated | ({"namespace": namespace} if self.namespaced else {})


# What `kubectl apply -k` of deploy/k8s creates.
INSTALL = (
    Right(verb="create", resource="namespaces"),
    Right(verb="create", resource="serviceaccounts", namespaced=True),
    Right(verb="create", resource="secrets", namespaced=True),
    Right(verb="create", resource="configmaps", namespaced=True),
    Right(verb="create", resource="services", namespaced=True),
    Right(verb="create", resource="deployments", group="apps", namespaced=True),
    Right(verb="create", resource="statefulsets", group="apps", namespaced=True),
    Right(verb="create", resource="daemonsets", group="apps", namespaced=True),
    Right(verb="create", resource="poddisruptionbudgets", group="policy", namespaced=True),
    Right(verb="create", resource="networkpolicies", group="networking.k8s.io", namespaced=True),
    Right(verb="create", resource="roles", group="rbac.authorization.k8s.io", namespaced=True),
    Right(verb="create", resource="rolebindings", group="rbac.authorization.k8s.io", namespaced=True),
    Right(verb="create", resource="clusterroles", group="rbac.authorization.k8s.io"),
    Right(verb="create", resource="clusterrolebindings", group="rbac.authorization.k8s.io"),
    Right(verb="create", resource="priorityclasses", group="scheduling.k8s.io"),
)
# What the scheduler needs; no other service uses the API, apart from the auth callout's TokenReviews.
SCHEDULER = "carico-scheduler"
SCHEDULES = (
    Right(verb="list", resource="pods"),
    Right(verb="watch", resource="pods"),
    Right(verb="list", resource="nodes"),
    Right(verb="watch", resource="nodes"),
    Right(verb="list", resource="namespaces"),
    Right(verb="create", resource="pods", subresource="binding"),
    Right(verb="patch", resource="pods", subresource="status"),
    Right(verb="delete", resource="pods"),
    Right(verb="list", resource="poddisruptionbudgets", group="policy"),
    Right(verb="create", resource="events", group="events.k8s.io"),
    Right(verb="create", resource="leases", group="coordination.k8s.io", namespaced=True),
)


async def check(api: Api, namespace: str) -> list[findings.Finding]:
    """Check the rights to install, and those of the scheduler."""
    try:
        missing = await _refused(api, INSTALL, namespace, user=None)
    except errors.NotFound:
        return [findings.skip("rights", "this API has no authorization reviews (CARICO's embedded API has none)")]
    return [_install(missing), await _service(api, SCHEDULER, SCHEDULES, namespace)]


def _install(missing: list[str]) -> findings.Finding:
    if not missing:
        return findings.ok("rights to install", f"all {len(INSTALL)} that `kubectl apply -k` needs")
    return findings.warn(
        "rights to install",
        f"you may not {findings.names(missing)}",
        "ask someone with these rights to install, or to bind you to cluster-admin; running CARICO needs none of them",
    )


async def _service(api: Api, name: str, wanted: tuple[Right, ...], namespace: str) -> findings.Finding:
    what = f"rights of {name}"
    try:
        await api.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
    except errors.NotFound:
        return findings.skip(what, f"no ServiceAccount {namespace}/{name}: it is not installed yet")
    except errors.Forbidden:
        return findings.skip(what, f"you may not look at ServiceAccounts in {namespace}")
    try:
        missing = await _refused(api, wanted, namespace, user=f"system:serviceaccount:{namespace}:{name}")
    except errors.Forbidden:
        return findings.skip(
            what, "you may not check others' rights (create subjectaccessreviews.authorization.k8s.io)"
        )
    if not missing:
        return findings.ok(what, f"all {len(wanted)} that it needs")
    return findings.fail(what, f"it may not {findings.names(missing)}", "apply deploy/k8s again: its Role was changed")


async def _refused(api: Api, wanted: Iterable[Right], namespace: str, *, user: str | None) -> list[str]:
    """Return the rights that `user` lacks; None: the user who asks."""
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"

    async def allowed(right: Right) -> bool:
        spec: dict[str, Any] = {"resourceAttributes": right.attributes(namespace)}
        if user is not None:
            spec["user"] = user
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = await api.request("POST", f"{REVIEWS}/{kind.lower()}s", body=review)
        return bool(answer.get("status", {}).get("allowed"))

    rights = list(wanted)
    answers = await asyncio.gather(*map(allowed, rights))
    return [str(right) for right, is_allowed in zip(rights, answers, strict=True) if not is_allowed]

"""Ends claims whose Pods were not bound in time; the holder of the Lease does it, so that one member does.

Each member writes its messages again in which claims are left that it has ended. And it ends its own claims by which a
bind had no answer: until then they hold their room also against the Pod itself.

The room of such a claim may only be given away once the Pod can no longer be bound by it. A process may have been
stopped between its look at the claim's age and the bind, for however long, or the bind may be on its way. It names the
Pod's resourceVersion of the time of the claim, so a change of the Pod makes the API refuse it.
"""

import asyncio
from collections.abc import Callable, Sequence

from carico_core.domain import cluster, errors, messages
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, instants
from carico_scheduler.pods import demand as demands
from carico_scheduler.sharing.claims import commits
from carico_scheduler.sharing.claims import ledger as ledgers

EVERY_S = 5.0
# Changes of Pods in one round: each is a request, and what is left waits for the next round.
MOST = 50
CONDITION = "carico.dev/ClaimExpired"


class Janitor:
    """The janitor of one member; idle while another member holds the Lease."""

    def __init__(
        self, ledger: ledgers.Ledger, committing: commits.Commits, *, api: api_actions.Api, clock: clocks.Clock,
        may_commit: Callable[[], bool], is_on_duty: Callable[[], bool], find: Callable[[str], cluster.Pod | None],
        on_changed: Callable[[str], None], count: Callable[[], None],
    ) -> None:  # fmt: skip
        """`find` returns a Pod by its UID; `count` counts an orphan.

        `on_changed` is called with the UID of a Pod by which no bind that was sent before can succeed any more.
        """
        self._ledger = ledger
        self._commits = committing
        self._api = api
        self._clock = clock
        self._may_commit = may_commit
        self._is_on_duty = is_on_duty
        self._find = find
        self._on_changed = on_changed
        self._count = count
        self._line = logs.get("sharing")

    async def run_forever(self) -> None:
        """Look for orphans, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self._ledger.forget_old(self._clock.monotonic_s())
            if self._may_commit():
                await self._end(self._ledger.doubtful(), self._may_commit)
                self.withdraw()
            if self._is_on_duty():
                await self.round()

    def withdraw(self) -> None:
        """Write each message again that still has a claim which has ended: others count it until then."""
        for node in self._ledger.voided():
            self._commits.ask(node, None, demands.Demand(), seq=-1)

    async def round(self) -> int:
        """End the orphans of one round; return how many claims were ended."""
        ended = await self._end(self._ledger.orphans(self._clock.monotonic_s()), self._is_on_duty)
        if ended:
            self.withdraw()
        return ended

    async def _end(self, found: Sequence[tuple[str, messages.Claim]], may_end: Callable[[], bool]) -> int:
        """End claims of Pods that have no node; return how many were ended."""
        ended = 0
        for node, claim in found[:MOST]:
            if not may_end():
                break
            if not await self._change_pod(node, claim):
                # Pods that can never be changed, for example since a webhook refuses, must not hold up all others.
                self._ledger.put_last(node, claim.uid)
                continue
            self._on_changed(claim.uid)
            if self._ledger.void(node, claim):
                ended += 1
                self._count()
                self._line.info("a claim ended without a bind", node=node, uid=claim.uid, scheduler=claim.scheduler)
        return ended

    async def _change_pod(self, node: str, claim: messages.Claim) -> bool:
        """Change the Pod; return whether it has no node, and no bind that names an older resourceVersion can succeed.

        If it has one by now, the claim stays: members whose watches have not shown the bind yet count the Pod by it.
        """
        pod = self._find(claim.uid)
        if pod is None:
            return False
        condition = {
            "type": CONDITION, "status": "True", "reason": "NotBound",
            "message": f"the claim of {claim.scheduler} on {node} ended without a bind",
            # Without a difference the API would leave the resourceVersion as it is.
            "lastTransitionTime": instants.format_time(self._clock.wall_ns()),
        }  # fmt: skip
        try:
            changed = await api_actions.patch_pod_status(
                self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, status={"conditions": [condition]}
            )
            return api_objects.parse_pod(changed).node_name is None
        except (errors.ApiError, errors.ApiUnavailable, ValueError) as error:
            # A Pod that is gone leaves by the watch.
            self._line.debug("a Pod could not be changed", pod=pod.key, error=str(error))
            return False

"""The claim of one decision: stored before its bind is sent, and looked at again right before.

The claims of a gang are a set: no bind is sent before all of them are stored, and if one is given up, all are. Each
node's claim is written by itself, as always; a transaction over all nodes would only have to be repeated as a whole
after each conflict, and no two members claim for gangs at the same time.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from carico_scheduler.bind import binder


class Claiming:
    """One claim: `prepare` stores it, and `permit` is asked right before the bind is sent."""

    def __init__(
        self, *, ready: Callable[[], Awaitable[None]], store: Callable[[], Awaitable[float]],
        check: Callable[[float], None], together: asyncio.Barrier | None,
    ) -> None:  # fmt: skip
        """`ready` prepares the Pod's volumes, `store` returns when the claim was sent, which `check` is called with.

        All of them raise `binder.Withheld` if the Pod must not be bound. `together`: the Pods of its gang.
        """
        self._ready = ready
        self._store = store
        self._check = check
        self._together = together
        self._sent_s = -math.inf

    async def prepare(self) -> None:
        """Store the claim. Raises `binder.Withheld`."""
        if self._together is None:
            await self._ready()
            self._sent_s = await self._store()
            return
        try:
            await self._ready()
            # Volumes may take minutes, and a claim must not be so old when it is bound.
            await self._together.wait()
            self._sent_s = await self._store()
            await self._together.wait()
        except asyncio.BrokenBarrierError as error:
            raise binder.Withheld("not sent: another Pod of its gang lost its claim") from error
        except BaseException:
            # The others of the gang wait for this one.
            await self._together.abort()
            raise

    def permit(self) -> None:
        """Raise `binder.Withheld` if the bind must not be sent."""
        self._check(self._sent_s)

"""The volumes of one Pod on its node: put in place, kept as the API has them while it runs, taken away after it."""

import asyncio
import datetime
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from carico_local.node import config_objects, mounting, podspec, projection, site, volumes


class PodVolumes:
    """Where the volumes of a Pod are, in `folders`, once they are mounted; and the objects that the Pod names."""

    def __init__(
        self, spec: podspec.PodSpec, *, node: site.Site, pod: Callable[[], Mapping[str, Any]],
        tell: Callable[[str, str, bool], None],
    ) -> None:  # fmt: skip
        self.folders: dict[str, mounting.Folder] = {}
        self.objects = config_objects.Objects(node.api, spec.namespace)
        self._spec = spec
        self._node = node
        self._tell = tell
        self._root = node.records.volumes(spec.uid)
        self._projected = [each.name for each in spec.volumes if isinstance(each.source, volumes.Projected)]
        # One writer at a time: a container that starts again may ask while the next look is due.
        self._writing = asyncio.Lock()
        self._projector = projection.Projector(
            self.objects, root=self._root, metadata=lambda: pod()["metadata"], node=node.amounts, stamp=self._stamp
        )

    async def mount(self, pause: Callable[[float], Awaitable[bool]]) -> bool:
        """True once all of the Pod's volumes are there; False where it was ended before."""
        known = self._node.records.mounted(self._spec.uid)
        if known is not None:
            self.folders.update(mounting.from_json(known))
            return True
        found = await mounting.until_there(self._look, tell=self._told, pause=pause)
        self.folders.update(found or {})
        return found is not None

    def keep(self) -> None:
        """Nothing; a node process that starts anew will know where the volumes are."""
        if self.folders:
            self._node.records.mount(self._spec.uid, mounting.to_json(self.folders))

    async def follow(self) -> None:
        """Nothing, at once where no volume is made of what the API says; else never returns and looks now and then."""
        while self._projected:
            await asyncio.sleep(self._node.chosen.sync_s)
            await self.refresh()

    async def refresh(self) -> None:
        """Nothing; files are as the API has them now. What cannot be had is told, and stays as it was."""
        if not self._projected:
            return
        try:
            async with self._writing:
                await mounting.project(self._spec, self._projector)
        except* mounting.NotMounted as failed:
            for error in failed.exceptions:
                self._told(str(error))

    async def remove(self) -> None:
        """Nothing; files of objects are gone: a Secret stays no longer than the containers that need it."""
        for name in self._projected:
            await asyncio.to_thread(shutil.rmtree, self._root / name, ignore_errors=True)

    async def _look(self) -> dict[str, mounting.Folder]:
        return await mounting.folders(self._spec, root=self._root, api=self._node.api, projector=self._projector)

    def _told(self, why: str) -> None:
        self._tell("FailedMount", why, True)

    def _stamp(self) -> str:
        whole_s, rest_ns = divmod(self._node.clock.wall_ns(), 10**9)
        return f"{datetime.datetime.fromtimestamp(whole_s, tz=datetime.UTC):%Y_%m_%d_%H_%M_%S}.{rest_ns:09d}"

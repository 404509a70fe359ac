"""The files of volumes that are made of what the API says: ConfigMaps, Secrets, the Pod's own fields.

Source: kubernetes/pkg/volume/{configmap,secret,downwardapi,projected} and pkg/fieldpath.
"""

import asyncio
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from carico_local.node import atomic_files, config_objects, sources, volumes

Files = dict[str, atomic_files.File]

_NO_KEY = {
    sources.CONFIG_MAP: "configmap references non-existent config key: {}",
    sources.SECRET: "references non-existent secret key: {}",
}
# A Secret's files are on the machine's disk, where a kubelet has a tmpfs: nobody else gets to them.
_FOLDER_MODE, _SECRET_FOLDER_MODE = 0o755, 0o700


class Projector:
    """Puts the files of one Pod's volumes in place, each in its folder below `root`."""

    def __init__(
        self, objects: config_objects.Objects, *, root: pathlib.Path, metadata: Callable[[], Mapping[str, Any]],
        node: Mapping[str, float], stamp: Callable[[], str],
    ) -> None:  # fmt: skip
        self._objects = objects
        self._root = root
        self._metadata = metadata
        self._node = node
        self._stamp = stamp

    async def put(self, name: str, source: volumes.Projected) -> pathlib.Path:
        """The folder, whose files are as the API has them now. Raises `Unread`, `OSError` and `ValueError`."""
        files = await self._collect(source)
        folder = self._root / name
        await asyncio.to_thread(_place, folder, files, is_secret=source.is_secret, stamp=self._stamp())
        return folder

    async def _collect(self, source: volumes.Projected) -> Files:
        files: Files = {}
        failed: list[str] = []
        for part in source.parts:
            try:
                if isinstance(part, volumes.ObjectFiles):
                    files |= await self._of_object(part, source.mode)
                else:
                    files |= self._of_fields(part, source.mode)
            except config_objects.Unread as error:
                failed.append(str(error))
        if failed:
            raise config_objects.Unread(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
        return files

    async def _of_object(self, part: volumes.ObjectFiles, mode: int) -> Files:
        content = await self._objects.find(part.kind, part.name)
        if content is None and not part.optional:
            raise config_objects.not_found(part.kind, part.name)
        content = content or config_objects.EMPTY
        if not part.items:
            both = {**content.texts, **content.binaries}
            return {key: atomic_files.File(data=data, mode=mode) for key, data in both.items()}
        files: Files = {}
        for item in part.items:
            data = content.get(item.key)
            if data is not None:
                files[item.path] = atomic_files.File(data=data, mode=mode if item.mode is None else item.mode)
            elif not part.optional:
                raise config_objects.Unread(_NO_KEY[part.kind].format(item.key))
        return files

    def _of_fields(self, part: volumes.FieldFiles, mode: int) -> Files:
        return {
            item.path: atomic_files.File(
                data=self._value(item.source).encode(), mode=mode if item.mode is None else item.mode
            )
            for item in part.items
        }

    def _value(self, source: str | sources.ResourceRef) -> str:
        if isinstance(source, sources.ResourceRef):
            return sources.amount(source, self._node)
        return field_text(source, self._metadata())


def field_text(path: str, metadata: Mapping[str, Any]) -> str:
    """The field of a Pod as a file holds it; labels and annotations a line each. Raises `Unread`.

    >>> field_text("metadata.labels", {"labels": {"b": "2", "a": "1"}})
    'a="1"\\nb="2"'
    """
    value = sources.metadata_field(path, metadata)
    if value is not None:
        return value
    field = path.removeprefix("metadata.")
    if field in ("labels", "annotations"):
        pairs = sorted((metadata.get(field) or {}).items())
        return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
    raise config_objects.Unread(f"unsupported fieldPath: {path}")


def _place(folder: pathlib.Path, files: Files, *, is_secret: bool, stamp: str) -> None:
    mode = _SECRET_FOLDER_MODE if is_secret else _FOLDER_MODE
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    folder.chmod(mode)
    atomic_files.write(folder, files, stamp=stamp)

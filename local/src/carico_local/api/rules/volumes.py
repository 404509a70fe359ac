"""The rules of volumes that are made of files of the API: names, paths and modes.

Source: k8s.io/kubernetes/pkg/apis/core/validation/validation.go (validateConfigMapVolumeSource and those after it).
"""

from collections.abc import Iterator
from typing import Any

from carico_local.api.model import objects
from carico_local.api.rules import fields

_MODE_RULE = "must be a number between 0 and 0777 (octal), both inclusive"
_MODE_MOST = 0o777
# The field with the name of the object, by kind of source.
_NAMES = {"configMap": "name", "secret": "secretName"}


def pod(spec: objects.Object) -> fields.Causes:
    """Yield the rules that the files of a Pod's volumes violate."""
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{index}]"
        for kind in ("configMap", "secret", "downwardAPI"):
            if kind in volume:
                yield from _source(volume[kind], f"{path}.{kind}", name=_NAMES.get(kind, ""))
        if "projected" in volume:
            yield from _projected(volume["projected"], f"{path}.projected")


def _projected(projected: objects.Object, path: str) -> fields.Causes:
    yield from _mode(projected, "defaultMode", path)
    seen: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        if len(source) > 1:
            yield fields.forbidden(here, "may not specify more than 1 volume type per source")
        for kind in ("configMap", "secret", "downwardAPI"):
            if kind not in source:
                continue
            yield from _source(source[kind], f"{here}.{kind}", name="" if kind == "downwardAPI" else "name")
            for item in _items(source[kind]):
                if item.get("path") in seen:
                    yield fields.wrong(path, source[kind].get("name", item["path"]), "conflicting duplicate paths")
                seen.add(item.get("path", ""))


def _source(source: objects.Object, path: str, *, name: str) -> fields.Causes:
    if name and not source.get(name):
        yield fields.required(f"{path}.{name}")
    yield from _mode(source, "defaultMode", path)
    for index, item in enumerate(_items(source)):
        here = f"{path}.items[{index}]" if name else path
        if name and not item.get("key"):
            yield fields.required(f"{here}.key")
        if not name and not (item.get("fieldRef") or item.get("resourceFieldRef")):
            yield fields.required(here, "one of fieldRef and resourceFieldRef is required")
        if not item.get("path"):
            yield fields.required(f"{here}.path")
        else:
            yield from _path(item["path"], f"{here}.path")
        yield from _mode(item, "mode", here)


def _items(source: objects.Object) -> Iterator[dict[str, Any]]:
    yield from source.get("items") or ()


def _path(text: str, field: str) -> fields.Causes:
    if text.startswith("/"):
        yield fields.wrong(field, text, "must be a relative path")
    if ".." in text.split("/"):
        yield fields.wrong(field, text, "must not contain '..'")
    if text.startswith("..") and not text.startswith("../"):
        yield fields.wrong(field, text, "must not start with '..'")


def _mode(source: objects.Object, field: str, path: str) -> fields.Causes:
    mode = source.get(field)
    if mode is not None and not 0 <= mode <= _MODE_MOST:
        yield fields.wrong(f"{path}.{field}", mode, _MODE_RULE)

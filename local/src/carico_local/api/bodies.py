"""The bodies of requests: JSON, YAML as kubectl and kustomize write it, protobuf as `kubectl create` does."""

from typing import Any

import orjson
import yaml
from aiohttp import web

from carico_local.api import applying, protobuf_bodies, statuses

_JSON = "application/json"
_YAML = ("application/yaml", applying.APPLY_PATCH)


class _Loader(yaml.SafeLoader):
    """YAML that could have been JSON: times stay text, and nothing is said twice by reference."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own way
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node. Aliases are refused: a few lines of them stand for gigabytes."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        return super().compose_node(parent, index)


async def read(request: web.Request, *, patch: bool = False) -> object:
    """What a request says; raises RequestFailed (400, 413, 415)."""
    kind = request.content_type
    if not patch and kind == protobuf_bodies.CONTENT_TYPE:
        return protobuf_bodies.parse(await request.read())
    if not patch and kind not in (_JSON, "application/yaml"):
        raise statuses.unsupported_media_type(kind, (_JSON, "application/yaml"))
    raw = await request.read()
    return parse_yaml(raw) if kind in _YAML else _parse_json(raw)


def parse_yaml(raw: bytes) -> object:
    """The one document in YAML, of which JSON is a part; raises RequestFailed (400)."""
    try:
        found: object = yaml.load(raw, _Loader)
        # Keys that are no text, and values that JSON has not.
        orjson.dumps(found)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        what = " ".join(str(error).split())[:300]
        raise statuses.bad_request(f"the body is not YAML that could be JSON: {what}") from error
    return found


def _parse_json(raw: bytes) -> object:
    try:
        body: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise statuses.bad_request(f"the body is not JSON: {error}") from error
    return body

"""The API server's audit log: one JSON line for each binding request."""

import pathlib

import orjson


def bindings(log: pathlib.Path) -> dict[str, list[str]]:
    """Return Pod ("namespace/name") -> the nodes that it was bound to, in order; refused bindings do not count."""
    found: dict[str, list[str]] = {}
    for line in log.read_bytes().splitlines():
        event = orjson.loads(line)
        if event.get("responseStatus", {}).get("code") != 201:
            continue
        about, binding = event["objectRef"], event["requestObject"]
        # The older path names the Pod in the body alone.
        name = about.get("name") or binding["metadata"]["name"]
        found.setdefault(f"{about['namespace']}/{name}", []).append(binding["target"]["name"])
    return found

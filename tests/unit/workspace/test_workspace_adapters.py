"""Inside `runtime` too, each foreign package has one adapter: what else may import it is decided by the file's name."""

import ast
import collections
import functools
import pathlib
from collections.abc import Mapping

import pytest

CORE = pathlib.Path(__file__).parents[3] / "libs/carico_core/src/carico_core"
# Package -> the modules that may import it, by their paths below carico_core.
ADAPTERS = {
    "nats": ("runtime/bus/*.py", "runtime/bus/security/*.py", "runtime/bus/streams/*.py"),
    "nacl": ("runtime/bus/security/nkeys.py",),
    "kubernetes": ("runtime/kube/*.py",),
    "httptools": ("runtime/kube/http_*.py",),
    "opentelemetry": ("runtime/observe/tracing.py",),
    "prometheus_client": ("runtime/observe/metrics.py", "runtime/observe/client_metrics.py"),
    "structlog": ("runtime/observe/logs.py",),
    "msgpack": ("wire/schemas.py", "wire/recording.py"),
    "msgspec": ("wire/schemas.py", "wire/messages/*.py"),
}


@functools.cache
def importers() -> Mapping[str, set[pathlib.Path]]:
    """The modules of the core that import each package, wherever in them they do so."""
    found = collections.defaultdict[str, set[pathlib.Path]](set)
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                found[name.partition(".")[0]].add(path.relative_to(CORE))
    return found


@pytest.mark.parametrize("package", sorted(ADAPTERS))
def test_a_foreign_package_is_imported_by_its_adapter_alone(package: str) -> None:
    found = importers().get(package, set())
    assert found, f"{package} is imported nowhere: take it out of this table"
    assert [path for path in found if not any(path.match(allowed) for allowed in ADAPTERS[package])] == []

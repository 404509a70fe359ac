"""No modules of the product import each other in a circle, not even for types alone."""

import ast
import graphlib
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[3]
FILES = {
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in ("libs", "services", "local", "twin", "cli")
    for source in (ROOT / folder).glob("**/src")
    for path in source.rglob("*.py")
}


def imports(path: pathlib.Path) -> Iterator[str]:
    """Yield the product's modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in FILES else node.module


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: {each for each in imports(path) if each in FILES} for name, path in FILES.items()}
    assert sum(map(len, graph.values())) > 2000
    # Raises CycleError, which names the modules of a circle.
    graphlib.TopologicalSorter(graph).prepare()

"""What functions of services remember is bounded in bytes: how many results, and how large each can be.

Peers, tenants and Nodes choose what services are asked about and how long their names are.
"""

import ast
import pathlib
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).parents[3]
# Why no result, or its key, is larger than some kilobytes.
SHORT = "the caller passes what has more characters to the function itself"
NAMES = "a name of Kubernetes: at most 253 characters; what is none raises, and is not remembered"
NUMBERS = "numbers and bytes of a fixed size"
OWN = "what this program says of itself"
CORE = "libs/carico_core/src/carico_core/"
BOUNDED = {
    f"{CORE}domain/amounts.py:_parse_quantity": SHORT,
    f"{CORE}numerics/estimators/footprint/growth.py:behind_life": NUMBERS,
    f"{CORE}runtime/kube/http_client.py:_header_lines": OWN,
    f"{CORE}wire/kubernetes/pods/images.py:_images": SHORT,
    f"{CORE}wire/kubernetes/pods/shared_values.py:_as_mapping": SHORT,
    f"{CORE}wire/kubernetes/pods/shared_values.py:_owner": SHORT,
    f"{CORE}wire/kubernetes/pods/shared_values.py:_toleration_records": SHORT,
    f"{CORE}wire/kubernetes/pods/spec.py:_parse_read": SHORT,
    f"{CORE}wire/kubernetes/pods/template.py:_template": SHORT,
    f"{CORE}wire/subjects.py:node_of": NAMES,
    "services/agent/src/carico_agent/traffic/inet_diag.py:endpoints": NUMBERS,
    "services/scheduler/src/carico_scheduler/sharing/claims/fits.py:_demand_of": "a claim of another scheduler: 64 KiB",
}
# Caches without a bound of their own.
UNBOUNDED = {
    f"{CORE}numerics/rescheduling/compiled.py:_numba": "no arguments: one result",
    f"{CORE}runtime/observe/metrics.py:labels": "a series for each: values of enumerations, and names of our own",
}
# What a module keeps for the whole process, and functions change.
KEPT = {f"{CORE}wire/kubernetes/pods/constraints.py:_KNOWN": "weak: an entry goes with the last Pod that has it"}
CACHES = ("functools.cache", "functools.lru_cache")
CONTAINERS = ("dict", "list", "set", "collections.", "weakref.", "queue.")
CHANGES = ("add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "setdefault", "update")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield what services consist of, by path."""
    for folder in ("libs", "services"):
        for path in sorted((ROOT / folder).rglob("src/**/*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def find(search: Callable[[ast.Module], Iterator[str]]) -> set[str]:
    """Return what a search finds in all modules."""
    return {f"{path}:{found}" for path, module in modules() for found in search(module)}


def caches(module: ast.Module, *, bounded: bool) -> Iterator[str]:
    """Yield the functions whose results are remembered for longer than a call of the function around them."""
    nested = {
        inner
        for outer in ast.walk(module)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
        if inner is not outer
    }
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            makers, name = node.decorator_list, node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            makers, name = [node.value.func], ast.unparse(node.targets[0]).rpartition(".")[2]
        else:
            continue
        # One that is made anew at each call goes with it, unless it is put elsewhere.
        if node not in nested or isinstance(node, ast.Assign):
            yield from (name for each in makers if is_cache(each) and has_bound(each) is bounded)


def is_cache(maker: ast.expr) -> bool:
    """Return whether a decorator makes a cache."""
    return ast.unparse(maker.func if isinstance(maker, ast.Call) else maker) in CACHES


def has_bound(maker: ast.expr) -> bool:
    """Return whether the decorator states how many results are remembered."""
    sizes = [*maker.args, *(each.value for each in maker.keywords)] if isinstance(maker, ast.Call) else []
    return bool(sizes) and not (isinstance(sizes[0], ast.Constant) and sizes[0].value is None)


def kept(module: ast.Module) -> Iterator[str]:
    """Yield the containers of a module that its functions change."""
    names = {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_container(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    changed = {
        node.value.id
        for node in ast.walk(module)
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name)
        and (isinstance(node.ctx, ast.Store | ast.Del) or (isinstance(node, ast.Attribute) and node.attr in CHANGES))
    }  # fmt: skip
    yield from sorted(names & changed)


def is_container(value: ast.expr) -> bool:
    """Return whether a value is a container that can grow."""
    displays = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    return isinstance(value, displays) or (
        isinstance(value, ast.Call) and ast.unparse(value.func).startswith(CONTAINERS)
    )


def test_each_cache_states_how_many_results_it_has_and_each_is_small() -> None:
    assert find(lambda module: caches(module, bounded=True)) == BOUNDED.keys()


def test_a_cache_without_a_bound_is_on_the_list() -> None:
    assert find(lambda module: caches(module, bounded=False)) == UNBOUNDED.keys()


def test_what_a_module_keeps_is_on_the_list() -> None:
    assert find(kept) == KEPT.keys()


SEEN = """
import collections, functools
READ = {"a": 1}
GROWS = collections.deque()
ALSO: dict[str, int] = {}

@functools.cache
def every(text): ...

@functools.lru_cache(maxsize=None)
def all_of(text): ...

@functools.lru_cache(maxsize=8)
def some(text): ...

class Parts:
    def __init__(self):
        self.labels = functools.cache(self.made)
        GROWS.append(READ["a"])

    @functools.cache
    def of(self, text): ...

def cycle(view):
    @functools.cache
    def fits(text): ...
    ALSO[view] = 1
"""


def test_what_grows_is_found() -> None:
    module = ast.parse(SEEN)
    assert sorted(caches(module, bounded=False)) == ["all_of", "every", "labels", "of"]
    assert [*caches(module, bounded=True)] == ["some"]
    assert [*kept(module)] == ["ALSO", "GROWS"]

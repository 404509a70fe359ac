"""docs/constants.md has every number of the default estimator, with its value and reason, and there are at most 60."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
NUMERICS = ROOT / "libs/carico_core/src/carico_core/numerics"
ESTIMATOR = (
    "admission", "class_costs", "cluster_evidence", "cost_filter", "dimension", "footprint",
    "footprint_constants", "growth", "population",
)  # fmt: skip
FILES = [
    NUMERICS / "estimators/base.py",
    *(NUMERICS / f"estimators/footprint/{name}.py" for name in ESTIMATOR),
    *(NUMERICS / f"{name}.py" for name in ("ewma", "kalman", "signal")),
    ROOT / "services/agent/src/carico_agent/learning/pipeline.py",
]
# Of a module with other subjects as well.
SHARED = {ROOT / "libs/carico_core/src/carico_core/domain/messages.py": ("BETWEEN_NODES", "EXACT_BELOW")}
MOST = 60
# Halves, doubles, none and one belong to formulas: a half-life, a square, an empty sum.
IN_FORMULAS = (0, 1, 2, 0.5)
ROW = re.compile(r"\| `(?P<name>[\w.]+)` \| (?P<values>[^|]+) \| (?P<what>[^|]+) \| (?P<why>[^|]+) \|")


def numbers(node: ast.AST) -> list[float]:
    return [
        float(each.value) for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, int | float) and not isinstance(each.value, bool)
    ]  # fmt: skip


def is_derived(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) for each in ast.walk(value))


def stated(body: list[ast.stmt], prefix: str) -> dict[str, list[float]]:
    """Named numbers of a module or class. Asserts that formulas have no others."""
    found: dict[str, list[float]] = {}
    for each in body:
        if isinstance(each, ast.ClassDef):
            found |= stated(each.body, f"{prefix}.{each.name}")
        elif isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            values = numbers(each.value)
            if is_derived(each.value):
                assert set(values) <= set(IN_FORMULAS), f"{prefix}.{ast.unparse(target)}"
            elif any(values):
                found[f"{prefix}.{ast.unparse(target)}"] = values
        elif isinstance(each, ast.FunctionDef):
            assert set(numbers(each)) <= set(IN_FORMULAS), f"{prefix}.{each.name}: name its numbers"
    return found


def in_code() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for path in FILES:
        found |= stated(ast.parse(path.read_text(encoding="utf-8")).body, path.stem)
    for path, names in SHARED.items():
        every = stated(ast.parse(path.read_text(encoding="utf-8")).body, path.stem)
        found |= {f"{path.stem}.{name}": every[f"{path.stem}.{name}"] for name in names}
    return found


def on_page() -> dict[str, list[float]]:
    page = (ROOT / "docs/constants.md").read_text(encoding="utf-8")
    rows = [match for match in map(ROW.fullmatch, page.splitlines()) if match]
    assert all(row["what"].strip() and row["why"].strip() for row in rows)
    found = {row["name"]: [float(value) for value in row["values"].split(",")] for row in rows}
    assert len(found) == len(rows), "a constant has two rows"
    return found


def test_every_constant_of_the_estimator_is_on_the_page_with_its_value() -> None:
    assert on_page() == in_code()


def test_there_are_at_most_sixty() -> None:
    assert sum(len(values) for values in in_code().values()) <= MOST


def test_a_number_in_a_formula_is_found() -> None:
    source = ast.parse("def share(x):\n    return 0.37 * x\n").body
    with pytest.raises(AssertionError, match=r"made\.share: name its numbers"):
        stated(source, "made")

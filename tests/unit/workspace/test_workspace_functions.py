"""Functions of the product have at most 40 lines, except those of which a shorter one would say less."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parents[3]
MOST = 40
# Split, a constructor would pass its parts from one function to the next.
PARTS = "puts the parts of something together, each with those before it"
DATA = "a table"
FLOW = "one pass, whose steps share most of their names"
LONGER = {
    "libs/carico_core/src/carico_core/numerics/estimators/footprint/footprint.py:estimate": FLOW,
    # Each name that is passed to another compiled function costs two atomic operations.
    "libs/carico_core/src/carico_core/numerics/rescheduling/services/search.py:search": FLOW,
    "libs/carico_core/src/carico_core/runtime/bus/streams/jetstream.py:streams": DATA,
    "libs/carico_core/src/carico_core/wire/kubernetes/pods/spec.py:parse_stated": DATA,
    "services/agent/src/carico_agent/reporting/instruments.py:__init__": DATA,
    "services/rescheduler/src/carico_rescheduler/answers.py:describe": DATA,
    "services/rescheduler/src/carico_rescheduler/app.py:__init__": PARTS,
    "services/scheduler/src/carico_scheduler/app.py:__init__": PARTS,
    "services/scheduler/src/carico_scheduler/decide/cycle.py:run": FLOW,
    "services/scheduler/src/carico_scheduler/engine/engine.py:__init__": PARTS,
    "services/scheduler/src/carico_scheduler/sharing/member.py:__init__": PARTS,
    "local/src/carico_local/applications/catalog.py:_boutique": DATA,
    "local/src/carico_local/applications/catalog.py:_hub": DATA,
    "twin/src/carico_twin/evaluate/sharing/study.py:sweeps": DATA,
    "cli/src/carico_cli/evaluation/rescheduler.py:_tables": DATA,
}


def test_a_function_is_short_or_on_the_list() -> None:
    longer = {
        f"{path.relative_to(ROOT)}:{each.name}"
        for folder in ("libs", "services", "local", "twin", "cli")
        for path in (ROOT / folder).rglob("src/**/*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and each.end_lineno is not None and each.end_lineno - each.lineno >= MOST
    }  # fmt: skip
    assert longer == LONGER.keys()

"""Benchmarks by their names, whichever folder they are in."""

import ast
import pathlib
import re

from bench import __main__ as runner

BENCH = pathlib.Path(runner.__file__).parent


def test_each_benchmark_has_a_name_of_its_own_and_can_be_run() -> None:
    modules = runner.available()
    files = [path for path in BENCH.rglob("*.py") if not path.stem.startswith("_")]
    assert len(modules) == len(files) > 20
    for name, module in modules.items():
        path = BENCH.joinpath(*module.split(".")[1:]).with_suffix(".py")
        functions = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef)]
        assert "run" in [each.name for each in functions], name


def test_commands_of_the_docs_name_benchmarks_that_exist() -> None:
    pages = [BENCH.parent / "README.md", *(BENCH.parent / "docs").rglob("*.md")]
    commands = re.findall(r"python -m bench((?: [a-z_-]+)+)", " ".join(page.read_text() for page in pages))
    names = {word for command in commands for word in command.split() if not word.startswith("--")}
    assert len(names) > 10
    assert names <= runner.available().keys()

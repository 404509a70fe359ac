"""What pages and sources quote exists: commands with their flags, modules, tests, make's targets, settings."""

import functools
import pathlib
import re
from collections.abc import Iterator

import click
import pytest

from carico_cli import application

ROOT = pathlib.Path(__file__).parents[3]
FOLDERS = (
    "libs", "services", "local", "twin", "cli", "bench", "tests", "docs", "deploy", "compose", "distribution",
)  # fmt: skip
KINDS = {".py", ".sh", ".js", ".html", ".yaml", ".yml", ".toml", ".conf", ".tpl", ".txt", ".md"}
FILES = [
    *(ROOT / name for name in ("Makefile", "Dockerfile", "docker-compose.yml")), *sorted(ROOT.glob("*.md")),
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in KINDS),
]  # fmt: skip
# What was renamed or removed stays named there.
PAGES = [path for path in FILES if path.suffix == ".md" and path.name != "CHANGELOG.md"]
# Any file that may define a test, a module or a variable.
THERE = {str(path.relative_to(ROOT)) for path in FILES}
# The program, not a namespace, a release or an image of this name, as in `--namespace carico --set ...`.
PROGRAM = re.compile(r"(?:^|\$ |[|;(&] ?|kubectl )carico ([a-z][\w-]*.*)")


@functools.cache
def text_of(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def quoted(path: pathlib.Path) -> Iterator[str]:
    """Yield what a page or source quotes as code, a line at a time."""
    text = text_of(path)
    if path.suffix == ".md":
        for block in re.findall(r"^ *```\w*\n(.*?)```", text, re.S | re.M):
            yield from re.sub(r"\\\n\s*", " ", block).splitlines()
        text = re.sub(r"```.*?```", "", text, flags=re.S)
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        # A backtick of a shell or of JavaScript may be closed only much later.
        if span.count("\n") < 3:
            yield " ".join(span.split())


def flags_of(words: list[str]) -> set[str]:
    """Return every flag of the command that the first words name, and of its subcommands."""
    top = application.cli.get_command(click.Context(application.cli), words[0])
    assert top is not None, f"there is no command {words[0]!r}"
    found, params = [top], list(top.params)
    while isinstance(found[-1], click.Group):
        named = [found[-1].commands[word] for word in words if word in found[-1].commands]
        if not named:
            break
        found.append(named[0])
        params += named[0].params
    return {"-h", "--help"} | {flag for each in params for flag in (*each.opts, *each.secondary_opts)}


def unknown(command: str) -> list[str]:
    """Return the flags of a quoted command that it does not have."""
    # Of an f-string only what does not depend on its values.
    command = re.split(r" #|[|;&>]", re.sub(r"\{[^{}]*\}", " ", command))[0]
    words = [word.strip("[](),.:'\"\\") for word in command.split()]
    known = flags_of(words)
    return [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


def source_of(module: str) -> str:
    """Return the source of a module that is run; empty if there is none."""
    path = module.replace(".", "/")
    ends = (f"{path}.py", f"{path}/__main__.py")
    return "".join(
        text_of(ROOT / file) for file in THERE if any(file == end or file.endswith(f"/src/{end}") for end in ends)
    )


def test_commands_and_their_flags_exist() -> None:
    found = [
        (path.relative_to(ROOT), match[1])
        for path in FILES if path.name != "CHANGELOG.md" and "tests" not in path.parts
        for line in quoted(path) for match in PROGRAM.finditer(line)
    ]  # fmt: skip
    assert len(found) > 300
    assert [(str(path), command) for path, command in found if unknown(command)] == []


@pytest.mark.parametrize(("command", "flags"), [
    ("recommend web --plot web.svg -o yaml", []), ("recommend --beside x", ["--beside"]),
    ("explain pod x --no-such | head -n 1", ["--no-such"]),
])  # fmt: skip
def test_a_flag_that_a_command_does_not_have_is_found(command: str, flags: list[str]) -> None:
    assert unknown(command) == flags


def test_modules_that_are_run_exist_and_have_the_flags() -> None:
    pattern = re.compile(r"python -m ((?:bench|tests|carico_\w+)(?:\.\w+)*)([^`\n|#;]*)")
    found = [(path, match[1], match[2]) for path in FILES for match in pattern.finditer(text_of(path))]
    assert len(found) > 50
    assert {module for _, module, _ in found if not source_of(module)} == set()
    benches = {pathlib.PurePath(file).stem for file in THERE if file.startswith("bench/")}
    for page, module, words in found:
        if page in PAGES:
            flags = re.findall(r"--[a-z-]+", words)
            assert [flag for flag in flags if flag not in source_of(module)] == [], f"{page}: {module} {words}"
            named = re.findall(r"(?<=\s)[a-z]\w*", words) if module == "bench" else []
            assert set(named) <= benches, f"{page}: {words}"


def test_tests_that_are_named_exist() -> None:
    for page in PAGES:
        for words in re.findall(r"pytest ([^`\n|]*)", text_of(page)):
            paths = [each.partition("::") for each in re.findall(r"(?<![\w/])tests/[\w./:-]*\w", words)]
            inside = [file for path, _, _ in paths for file in THERE if file == path or file.startswith(f"{path}/")]
            assert bool(inside) == bool(paths), f"{page}: {words}"
            defined = " ".join(re.findall(r"def (\w+)", " ".join(text_of(ROOT / file) for file in inside)))
            wanted = [name for _, _, name in paths if name] + re.findall(r"-k (\w+)", words)
            assert [name for name in wanted if name not in f"{defined} {' '.join(inside)}"] == [], f"{page}: {words}"
    every = " ".join(file for file in THERE if file.startswith("tests/"))
    every += " ".join(" ".join(re.findall(r"def (test_\w+)", text_of(ROOT / file))) for file in every.split())
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)(?:\.py)?`", text_of(page))}
    assert len(named) > 10
    assert {name for name in named if name not in every} == set()


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.M))
    lines = (line for page in PAGES for line in quoted(page))
    named = {match[1] for line in lines if (match := re.match(r"(?:\$ )?make ([a-z][a-z-]*)", line))}
    assert len(named) > 10
    assert named - targets == set()


def test_settings_that_are_named_exist() -> None:
    pattern = re.compile(r"\bCARICO_[A-Z0-9_]*[A-Z0-9]\b(?![_*.]|\{)")
    sources = {name for path in FILES if path not in PAGES for name in pattern.findall(text_of(path))}
    listed = sources | set(pattern.findall(text_of(ROOT / "docs/settings.md")))
    named = {name for page in PAGES if page.name != "settings.md" for name in pattern.findall(text_of(page))}
    assert len(named) > 50
    assert named - listed == set()

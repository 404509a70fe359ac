"""What the documentation points to exists: files and headings of links, and the paths in CONTRIBUTING's maps."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
FOLDERS = ("docs", "deploy", "compose", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
SOURCES = (
    "libs",
    "services",
    "local",
    "twin",
    "cli",
    "tests",
    "bench",
    "deploy",
    "docs",
    "compose",
    "requirements",
    "distribution",
    ".ci",
)


def anchors(page: pathlib.Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: pathlib.Path) -> list[tuple[str, str]]:
    """Return the file and the anchor of each link that stays in the project."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text)
    return [(file, anchor) for file, anchor in found if not file.startswith(("http:", "https:"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: pathlib.Path) -> None:
    for file, anchor in links(page):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def test_links_were_found() -> None:
    assert sum(len(links(page)) for page in PAGES) > 100


def test_paths_on_the_maps_exist() -> None:
    named = re.findall(r"`([\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    wanted = {name.rstrip("/") for name in named if "/" in name or name.endswith(".py")}
    there = {f"/{folder}" for folder in SOURCES}
    there |= {f"/{path.relative_to(ROOT)}" for folder in SOURCES for path in (ROOT / folder).rglob("*")}
    assert len(wanted) > 50
    assert {name for name in wanted if not any(path.endswith("/" + name) for path in there)} == set()


@pytest.mark.parametrize("line", ["bind failed", "source broken", "outcome of a bind could not be handled"])
def test_log_lines_in_the_runbook_are_those_of_the_code(line: str) -> None:
    assert f"`{line}`" in " ".join((ROOT / "docs/runbook.md").read_text(encoding="utf-8").split())
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "services").rglob("src/**/*.py"))
    assert any(f'"{line}' in source for source in sources)


def test_objects_of_ours_in_commands_are_those_that_are_installed() -> None:
    pages = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = re.findall(r"kubectl(?: -n carico| --namespace carico)[^`|\n]*(?:\n[^`|\n]*)?", pages)
    named = {name for command in commands for name in re.findall(r"\b(carico-[a-z-]+[a-z])(?:-0)?(?= |$)", command)}
    manifests = [*(ROOT / "deploy/k8s").rglob("*.yaml"), *(ROOT / "deploy/observe").rglob("*.yaml")]
    installed = set(re.findall(r"name: ([a-z-]+)", " ".join(each.read_text(encoding="utf-8") for each in manifests)))
    assert len(named) > 4
    assert named - installed == set()

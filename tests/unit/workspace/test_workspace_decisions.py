"""Each architecture decision record has a status and a date, says what violates it, and is listed in the index."""

import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "docs/adr"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_is_dated_complete_and_listed(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    title = re.match(r"# (\d+)\. (.+)\n", text)
    status = re.search(r"^Status: [a-z].*?, (\d{4}-\d\d-\d\d)\.", text, re.M)
    assert title is not None and status is not None
    assert path.name.startswith(f"{int(title[1]):04}-")
    assert re.search(r"violates\s+this\s+when", "\n".join(text.rstrip().splitlines()[-5:]), re.I)
    rows = [line for line in INDEX.splitlines() if f"({path.name})" in line]
    assert len(rows) == 1 and title[2] in rows[0] and status[1] in rows[0]


def test_the_index_lists_no_record_that_is_gone() -> None:
    assert set(re.findall(r"\((\d{4}-[^)]+\.md)\)", INDEX)) == {path.name for path in RECORDS}


def test_no_two_records_have_the_same_number() -> None:
    assert len({path.name[:4] for path in RECORDS}) == len(RECORDS)

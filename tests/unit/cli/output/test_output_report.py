"""A report's folder is tried before the work begins; what stands in the way is one line that names the flag."""

import errno
import os
import pathlib
import tempfile
from typing import Any

import pytest

from carico_cli.output import report as report_folder
from carico_core.domain import errors


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path: pathlib.Path) -> None:
    report_folder.check(tmp_path / "var" / "demo")
    assert list((tmp_path / "var" / "demo").iterdir()) == []
    report_folder.write(tmp_path / "var" / "demo", {"report.json": b"{}"})
    assert (tmp_path / "var" / "demo" / "report.json").read_bytes() == b"{}"


def test_a_path_that_is_no_folder_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    for act in (report_folder.check, lambda folder: report_folder.write(folder, {"x": b""})):
        with pytest.raises(errors.EnvironmentUnfit, match=r"^--out: cannot write to .*/file/x \(Not a dir"):
            act(tmp_path / "file" / "x")
    with pytest.raises(errors.EnvironmentUnfit, match=r"^--snapshot: cannot write to .*/file \(File exists\): choose"):
        report_folder.check(tmp_path / "file", flag="--snapshot")


def test_a_full_disk_is_found_before_the_work_begins(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tempfile.TemporaryFile

    def full(**given: Any) -> Any:
        file = made(**given)

        def write(data: bytes) -> int:
            assert len(data) >= 2**20, "as much as a report may have"
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        file.write = write
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(errors.EnvironmentUnfit, match="No space left on device"):
        report_folder.check(tmp_path)


def test_a_table_escapes_text_and_aligns_numbers() -> None:
    rows = [("a<b", "1.5 s", "met", report_folder.Html("2 <small>± 1</small>")), ("c", "-", "missed", "12")]
    assert report_folder.table(("who", "time", "so", "n"), rows, ours={1}) == (
        '<div class="wide"><table>'
        "<tr><th>who</th><th class=n>time</th><th>so</th><th class=n>n</th></tr>"
        "<tr><td>a&lt;b</td><td class=n>1.5 s</td><td>met</td><td class=n>2 <small>± 1</small></td></tr>"
        "<tr class=ours><td>c</td><td class=n>-</td><td>missed</td><td class=n>12</td></tr>"
        "</table></div>"
    )
    assert report_folder.table((), [("1", "2")], texts=2) == (
        '<div class="wide"><table><tr><td>1</td><td>2</td></tr></table></div>'
    )

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

"""A process that has closed folders reads no file below them, however it gets there, and everything else."""

import os
import pathlib
import subprocess
import sys

import pytest

from carico_local.node.runtime import landlock

pytestmark = pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")
CLOSED = """
import os, pathlib, sys
from carico_local.node.runtime import landlock
landlock.close([sys.argv[1]], still_open=[pathlib.Path(sys.argv[1], "shared")])
if os.geteuid() == 0 and len(sys.argv) > 3:
    os.setuid(int(sys.argv[3]))
os.execvp("sh", ["sh", "-c", sys.argv[2]])
"""
NOBODY = 65534


def run(folder: pathlib.Path, script: str, *user: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that has closed the folder, as this user where the test is root's."""
    command = [sys.executable, "-c", CLOSED, str(folder), script, *user]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60.0)


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file in a folder that is closed; another one next to it is not."""
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    return tmp_path / "closed" / "file"


def test_files_below_are_not_read_and_all_others_are(secret: pathlib.Path) -> None:
    found = run(secret.parent, f"cat {secret}; cat {secret.parents[1]}/open/file; cat /etc/passwd | wc -l")
    assert "Permission denied" in found.stderr
    words = found.stdout.split()
    assert words[0] == "open"
    assert int(words[1]) > 0


def test_no_link_and_no_other_process_leads_to_them(secret: pathlib.Path) -> None:
    link = secret.parents[1] / "open" / "link"
    link.symlink_to(secret)
    for way in (str(link), f"/proc/self/root{secret}", f"/proc/{os.getpid()}/root{secret}"):
        found = run(secret.parent, f"cat {way}")
        assert (found.returncode, found.stdout) == (1, ""), way
        assert "Permission denied" in found.stderr


def test_files_of_a_folder_below_that_is_left_open_are_read(secret: pathlib.Path) -> None:
    (secret.parent / "shared").mkdir()
    found = run(secret.parent, f"echo new > {secret.parent}/shared/file; cat {secret.parent}/shared/file {secret}")
    assert (found.returncode, found.stdout) == (1, "new\n")
    assert "Permission denied" in found.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root lists every folder, and can become another user")
def test_a_folder_on_the_way_that_cannot_be_listed_leaves_nothing_open(secret: pathlib.Path) -> None:
    """As where /home is closed to listing. The user may go through, and owns what is closed."""
    script = f"""
import os, pathlib, sys
from carico_local.node.runtime import landlock
os.setuid({NOBODY})
landlock.close([sys.argv[1]])
for name in sys.argv[2:]:
    try:
        print(open(name).read().strip())
    except OSError as error:
        print(error.strerror)
"""
    way = secret.parents[1]
    way.chmod(0o711)
    for folder in way.parents[: len(way.parents) - 2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    asked = [str(secret.parent), str(secret), str(way / "open" / "file"), "/etc/hostname"]
    done = subprocess.run(
        [sys.executable, "-c", script, *asked], check=True, capture_output=True, text=True, timeout=60
    )
    # What is next to it is closed, too: nobody can say what that is.
    assert done.stdout.splitlines()[:2] == ["Permission denied"] * 2
    assert "Permission denied" not in done.stdout.splitlines()[2:]


def test_nothing_is_read_of_a_process_that_has_not_closed_them(secret: pathlib.Path) -> None:
    """A service's variables and memory may contain what it has read there. Root may read those of every process."""
    with subprocess.Popen(["sleep", "600"], user=None if os.geteuid() else NOBODY) as service:
        found = run(secret.parent, f"cat /proc/$$/environ > /dev/null && cat /proc/{service.pid}/environ", str(NOBODY))
        service.kill()
    assert (found.returncode, found.stdout) == (1, "")
    assert "Permission denied" in found.stderr


@pytest.mark.skipif(0 < landlock.version() < landlock.REFER_SINCE, reason="the kernel's Landlock cannot allow moves")
def test_files_are_moved_between_other_folders_and_not_out_of_a_closed_one(secret: pathlib.Path) -> None:
    here, there = secret.parents[1] / "open", secret.parents[1] / "other"
    there.mkdir()
    program = "import os, sys; os.link(*sys.argv[1:3]); os.rename(*sys.argv[1::2])"
    script = f'{sys.executable} -c "{program}"'
    moved = run(secret.parent, f"{script} {here}/file {there}/link {there}/file && cat {there}/file {there}/link")
    assert moved.stdout.split() == ["open", "open"], moved.stderr
    refused = run(secret.parent, f"{script} {secret} {here}/link {here}/file")
    assert "Invalid cross-device link" in refused.stderr
    assert list(here.iterdir()) == []


def test_without_folders_nothing_is_given_up(secret: pathlib.Path) -> None:
    landlock.close(())
    assert secret.read_text() == "closed\n"

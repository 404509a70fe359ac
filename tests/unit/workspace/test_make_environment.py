"""`make` and the environment that it installs into: a broken one is not kept, and PYTHON= is heeded."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
# As Debian's without python3-venv: it makes an interpreter, then fails at pip.
WITHOUT_PIP = """#!/bin/sh
if [ "$1" = -m ]; then mkdir -p .venv/bin; echo '#!/bin/sh' > .venv/bin/python; chmod +x .venv/bin/python; exit 1; fi
exec {python} "$@"
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def make(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_an_environment_without_pip_is_not_left_behind(folder: pathlib.Path) -> None:
    python = folder / "python-without-pip"
    python.write_text(WITHOUT_PIP.format(python=sys.executable))
    python.chmod(0o755)
    failed = make(folder, ".venv/bin/pip", f"PYTHON={python}")
    assert failed.returncode != 0
    assert "apt-get install python3-venv" in failed.stderr
    assert not (folder / ".venv").exists()


def test_another_python_than_the_environments_makes_it_again(folder: pathlib.Path) -> None:
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho /another/python\n")
    own.chmod(0o755)
    assert make(folder, "help").returncode == 0
    assert own.exists()
    said = make(folder, "help", f"PYTHON={sys.executable}")
    assert ".venv was made with another Python" in said.stdout
    assert not own.exists()

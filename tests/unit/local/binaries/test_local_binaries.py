"""Tools: taken where they fit, built once where they do not, by the first that comes; a failure is one line."""

import pathlib
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.binaries import cache, catalog, toolchain, tools
from carico_local.cluster import processes
from tests.tools import waiting

# Builds an empty program at the given path, and notes that it was called.
GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.26.8; exit 0; }
echo "$@" >> "{calls}"
echo "go: downloading example.invalid/a v1.0.0" >&2
echo "example.invalid/a/b" >&2
{fails}
while [ "$1" != -o ]; do shift; done
out=$2
shift 2
[ -d "$out" ] || { : > "$out"; exit 0; }
for package in "$@"; do : > "$out/$(basename "$package")"; done
"""


class Machine:
    """A machine of which only a folder of programs and a cache are known."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.bin = directory / "bin"
        self.assets = directory / "assets"
        self.calls = directory / "calls"
        self.environ = {
            "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(directory), "XDG_CACHE_HOME": str(directory / "cache"),
            "KUBEBUILDER_ASSETS": str(self.assets),
        }  # fmt: skip
        self.reported: list[cache.Progress] = []

    def has(self, folder: pathlib.Path, name: str, text: str) -> None:
        """An executable script."""
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def says_version(self, folder: pathlib.Path, name: str, version: str) -> None:
        """A program that states a version."""
        self.has(folder, name, f"#!/bin/sh\necho '{name} v{version}'\n")

    def has_go(self, *, fails: str = "") -> None:
        """A Go that builds."""
        self.has(self.bin, "go", GO.replace("{calls}", str(self.calls)).replace("{fails}", fails))

    def obtain(self, *names: str) -> dict[str, tools.Found]:
        """What `tools.obtain` finds."""
        return tools.obtain(names, environ=self.environ, clock=clocks.FakeClock(), report=self.reported.append)

    @property
    def builds(self) -> list[str]:
        """How Go was called, once a line."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def test_every_tool_has_a_pinned_version_and_a_module_with_sums() -> None:
    assert len(catalog.TOOLS) >= 9
    for tool in catalog.TOOLS.values():
        assert tool.module.version[0].isdigit()
        assert (tool.module.directory / "go.sum").stat().st_size > 0
    assert "gitVersion=v1.36.4" in catalog.KUBERNETES.ldflags
    assert catalog.KUBERNETES.key != catalog.ETCD.key
    with pytest.raises(errors.SettingsError, match=r"tool: got 'kubctl', expected one of .*etcd, helm, kube-apiserver"):
        catalog.tool("kubctl")


def test_a_modules_own_source_is_part_of_the_key(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (catalog.KUBERNETES_E2E.directory / "main.go").exists()
    shutil.copytree(catalog.KUBERNETES_E2E.directory, tmp_path / catalog.KUBERNETES_E2E.folder)
    shipped = catalog.KUBERNETES_E2E.key
    monkeypatch.setattr(catalog, "MODULES", tmp_path)
    assert catalog.KUBERNETES_E2E.key == shipped
    with (catalog.KUBERNETES_E2E.directory / "main.go").open("a") as file:
        file.write("// changed\n")
    assert catalog.KUBERNETES_E2E.key != shipped


def test_a_program_of_the_wanted_version_is_taken_and_said(machine: Machine) -> None:
    machine.says_version(machine.bin, "etcd", "3.6.2")
    found = machine.obtain("etcd")["etcd"]
    assert found.path == machine.bin / "etcd"
    assert machine.reported[0].text == f"etcd 3.6.2: {machine.bin / 'etcd'} (PATH)"


def test_assets_come_before_the_path_and_another_version_is_passed_over(machine: Machine) -> None:
    machine.says_version(machine.assets, "kubectl", "1.36.0")
    machine.says_version(machine.bin, "kubectl", "1.36.4")
    assert machine.obtain("kubectl")["kubectl"].path == machine.assets / "kubectl"
    machine.says_version(machine.assets, "kubectl", "1.32.4")
    assert machine.obtain("kubectl")["kubectl"].path == machine.bin / "kubectl"
    assert "is 1.32.4, not 1.36: skipped" in machine.reported[1].text


def test_what_is_missing_is_built_once_in_one_go_and_found_again(machine: Machine) -> None:
    machine.has_go()
    names = ("kube-apiserver", "kubectl", "etcd")
    found = machine.obtain(*names)
    assert all(found[name].path.name == name and found[name].path.exists() for name in names)
    assert len(machine.builds) == 2
    assert "gitVersion=v1.36.4" in machine.builds[0]
    # This machine's own kubectl may have been skipped first.
    words = [line.text.split()[0] for line in machine.reported if not line.passing]
    assert [word for word in words if word != "kubectl:"] == ["building", "built"] * 2
    assert machine.obtain(*names) == found
    assert len(machine.builds) == 2
    assert not list(found["etcd"].path.parent.glob(".partial*"))


def test_a_program_that_is_named_twice_is_built_once(machine: Machine) -> None:
    machine.has_go()
    assert list(machine.obtain("kubectl", "etcd", "kubectl")) == ["kubectl", "etcd"]
    assert len(machine.builds) == 2


def test_of_two_that_build_the_same_one_waits(machine: Machine) -> None:
    is_heard = machine.bin / "heard"
    machine.has_go(fails=f"until [ -e {is_heard} ]; do sleep 0.02; done")
    found: list[tools.Found] = []
    threads = [threading.Thread(target=lambda: found.append(machine.obtain("etcd")["etcd"])) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        # The build lasts until the other has come.
        said = "waiting for another process that builds etcd 3.6.14"
        waiting.until_now(lambda: said in [line.text for line in machine.reported])
    finally:
        is_heard.touch()
        for thread in threads:
            thread.join()
    assert found[0] == found[1]
    assert len(machine.builds) == 1


def test_where_there_is_no_go_that_is_new_enough_one_is_installed_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[pathlib.Path] = []

    def install(target: pathlib.Path) -> None:
        installed.append(target)
        machine.has_go()
        (target / "go/bin").mkdir(parents=True)
        (machine.bin / "go").rename(target / "go/bin/go")
        machine.has(machine.bin, "go", "#!/bin/sh\necho go1.21.3\n")

    monkeypatch.setattr(toolchain, "_install", install)
    machine.obtain("etcd")
    machine.obtain("kubelet")
    assert len(installed) == 1
    assert machine.environ["XDG_CACHE_HOME"] in str(installed[0])
    assert len(machine.builds) == 2


OBTAIN = """
from carico_core.runtime.process import clock as clocks, settings
from carico_local.binaries import tools
tools.obtain(["etcd"], environ=settings.environment(), clock=clocks.SystemClock(), report=lambda _: None)
"""


def test_a_killed_tool_takes_its_build_along_and_the_next_one_builds_again(machine: Machine) -> None:
    machine.has_go(fails=f"echo $$ > {machine.bin}/pid; exec sleep 600")
    with subprocess.Popen([sys.executable, "-c", OBTAIN], env=machine.environ) as tool:
        pid = machine.bin / "pid"
        waiting.until_now(lambda: pid.exists() and pid.read_text().endswith("\n"))
        build = processes.identify(int(pid.read_text()))
        assert build is not None
        tool.kill()
    waiting.until_now(lambda: not processes.is_alive(build))
    machine.has_go()
    assert machine.obtain("etcd")["etcd"].path.exists()


def test_a_build_that_fails_is_one_line_with_what_to_do(machine: Machine) -> None:
    machine.has_go(fails="echo 'go: example.invalid/a: dial tcp: no such host' >&2; exit 1")
    with pytest.raises(errors.EnvironmentUnfit) as caught:
        machine.obtain("etcd")
    text = str(caught.value)
    assert text.startswith("cannot build etcd 3.6.14: go: example.invalid/a: dial tcp: no such host; put them into")
    assert "\n" not in text
    machine.has_go()
    assert machine.obtain("etcd")["etcd"].path.exists()

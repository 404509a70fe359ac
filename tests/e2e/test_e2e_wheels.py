"""`pip install carico`: the wheels carry every file, and run a cluster in an environment outside the source tree."""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping

import pytest

from carico_core.runtime.bus import port
from carico_local import nats_server
from tests.e2e import carico_command
from tests.tools import kubernetes

ROOT = pathlib.Path(__file__).parents[2]
MEMBERS = sorted(
    path.parent
    for pattern in ("libs/*", "services/*", "local", "twin", "cli", "distribution")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def outside() -> Iterator[pathlib.Path]:
    """A folder that every user may enter, as Pods of emulated nodes are another user's."""
    with tempfile.TemporaryDirectory(prefix="carico-wheels-") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def wheels(outside: pathlib.Path) -> Mapping[str, pathlib.Path]:
    """The wheel of each package, as `make wheels` builds it."""
    built = outside / "wheels"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(built))
    subprocess.run([*PIP, "wheel", *options, *map(str, MEMBERS)], check=True, capture_output=True)
    return {path.name.split("-")[0].replace("_", "-"): path for path in built.iterdir()}


@pytest.fixture(scope="module")
def environment(outside: pathlib.Path, wheels: Mapping[str, pathlib.Path]) -> pathlib.Path:
    """The commands of an environment with the wheels; packages of others are those of this one."""
    venv.create(outside / "env", with_pip=False)
    scripts = outside / "env/bin"
    subprocess.run(
        [*PIP, "--python", str(scripts / "python"), "install", "--no-deps", "--no-index", *map(str, wheels.values())],
        check=True, capture_output=True,
    )  # fmt: skip
    # A path in a .pth file is searched, but its own .pth files are not: this environment's CARICO is not found.
    (site,) = (outside / "env/lib").glob("python*/site-packages")
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    (scripts / "nats-server").symlink_to(nats_server.binary())
    return scripts


@pytest.mark.parametrize("member", MEMBERS, ids=lambda path: path.name)
def test_a_wheel_has_every_file_of_its_package(member: pathlib.Path, wheels: Mapping[str, pathlib.Path]) -> None:
    project = tomllib.loads((member / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = member / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in path.as_posix()
    }
    packed = set(zipfile.ZipFile(wheels[project["name"]]).namelist())
    assert {name for name in packed if ".dist-info/" not in name} == files


@pytest.mark.real_programs
async def test_a_cluster_runs_outside_the_source_tree(environment: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = str(environment / "carico")
    shell = carico_command.Shell(tmp_path, command=(command,))
    assert (await shell.run("--version"))[1] == f"carico, version {port.VERSION}\n"
    code, out, err = await carico_command.Shell(
        tmp_path,
        command=(str(environment / "python"), "-c", "import carico_cli, carico_web; print(carico_web.__file__)"),
    ).run()
    assert (code, err) == (0, "")
    assert pathlib.Path(out.strip()).is_relative_to(environment.parent)
    async with carico_command.cluster(shell, "wheels", "--nodes", "1"):
        flags = ("--name", "wheels", "--pods", "2", "--seconds", "0.2", "--wait")
        code, out, err = await shell.run("submit", "pi", *flags)
        assert code == 0, out + err
        assert "2 of 2 done" in out
        # kubectl finds a plugin by its name on PATH.
        shell.environ["PATH"] = f"{environment}:{shell.environ['PATH']}"
        kubectl = str(kubernetes.programs("kubectl")["kubectl"].path)
        plugin = carico_command.Shell(tmp_path, command=(kubectl, "carico"))
        plugin.environ.update(shell.environ)
        code, out, err = await plugin.run("explain", "node", "node-1", "--name", "wheels")
        assert code == 0, out + err
        assert out.startswith("node-1 takes ")

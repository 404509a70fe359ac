"""The images that nodes start with, made from this machine's files, so that nothing is pulled or built.

Sandboxes of Pods, and jobs that only need a shell, run this machine's busybox. The workloads of `carico submit` run on
the Python that runs this tool: the interpreter, its library and all shared libraries have the same paths as on this
machine, so that no path in them changes. numpy, orjson and the code of the workloads are in /carico.
"""

import importlib.util
import os
import pathlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping

import carico_core
import carico_local
from carico_core.domain import errors
from carico_local.binaries import cache
from carico_local.jobs import job
from carico_local.kubelets import configuration, image_archive

TAG = f"docker.io/{job.IMAGE}"
_SHELL_COMMANDS = ("sh", "sleep", "cat", "echo", "wget", "nslookup", "dd")
_CODE = "/carico"
_PROGRAM = "import sys\n\nfrom carico_local.workloads import main\n\nsys.exit(main.main())\n"
# The modules of ours that the workloads import, and no others: a change in any of them makes a new image.
_CORE = ("__init__.py", "domain/*.py", "runtime/__init__.py", "runtime/process/__init__.py", "runtime/process/clock.py")
_LOCAL = ("__init__.py", "applications/*.py", "workloads/*.py")
# Images are large, and each change of our code makes a new one; running clusters may still use older ones.
_KEPT = 3
# Parts of Python's library that no workload imports, and third-party packages.
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
     "pydoc_data")
)  # fmt: skip


def ensure_sandbox(busybox: pathlib.Path, environ: Mapping[str, str]) -> pathlib.Path:
    """Return the archive of the sandboxes' image; create it where the cache has none. Raises `EnvironmentUnfit`."""
    image = image_archive.Image(
        tag=configuration.SANDBOX_IMAGE,
        # A static busybox has no shared libraries; otherwise they are included.
        files={"/bin/busybox": busybox, **image_archive.shared_libraries([busybox])},
        links={f"/bin/{name}": "busybox" for name in _SHELL_COMMANDS},
        environ={"PATH": "/bin"},
        command=("/bin/busybox", "sleep", "2147483647"),
    )
    return _kept(image, "sandbox", "Pod sandboxes", environ, before=lambda: None)


def ensure_workloads(environ: Mapping[str, str], *, report: Callable[[str], None]) -> pathlib.Path:
    """Return the archive of the workloads' image; create it where the cache has none. Raises `EnvironmentUnfit`."""

    def before() -> None:
        report(f"making the workloads' image {job.IMAGE} from this Python (once)")
        _remove_old(cache.directory(environ))

    return _kept(of_this_python(), "workload", "the workloads", environ, before=before)


def _kept(
    image: image_archive.Image, name: str, of: str, environ: Mapping[str, str], *, before: Callable[[], None]
) -> pathlib.Path:  # fmt: skip
    target = cache.directory(environ) / f"{name}-{image.key}.tar"
    with cache.locked(target, lambda: None):
        if not target.exists():
            before()
            try:
                image_archive.write(image, target)
            except OSError as error:
                raise errors.EnvironmentUnfit(f"cannot write the image of {of}: {error}") from error
    return target


def of_this_python() -> image_archive.Image:
    """Return the workloads' image: interpreter, library, numpy, workloads, and all their shared libraries."""
    interpreter = pathlib.Path(sys.executable).resolve()
    library = {str(path): path for path in _library()}
    code = dict(_code())
    machine_code = [interpreter, *(path for path in (*library.values(), *code.values()) if _is_shared(path))]
    # numpy's own libraries are next to it, also in the image.
    libraries = set(code.values())
    shared = {
        name: path for name, path in image_archive.shared_libraries(machine_code).items() if path not in libraries
    }
    files = {str(interpreter): interpreter, **library, **shared, **code}
    return image_archive.Image(
        tag=TAG,
        files=files,
        scripts={"/usr/local/bin/carico-workload": f"#!{interpreter}\n{_PROGRAM}"},
        # The Pods of a node share its cores: BLAS must not start a thread for each core of the machine.
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": _CODE, "PYTHONUNBUFFERED": "1",
                 "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
        command=("carico-workload", "--help"),
    )  # fmt: skip


def _remove_old(folder: pathlib.Path) -> None:
    """Make room for one more."""
    newest_first = sorted(folder.glob("workload-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_KEPT - 1 :]:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


def _library() -> Iterator[pathlib.Path]:
    for folder in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED"))):
        yield from _walk(pathlib.Path(folder))


def _code() -> Iterator[tuple[str, pathlib.Path]]:
    """Yield the content of /carico: numpy with its wheel's libraries, orjson, and our modules that run in a Pod."""
    # Not imported: they would stay in the memory of every process that starts a node.
    numpy, orjson = (_folder(getattr(importlib.util.find_spec(name), "origin", None)) for name in ("numpy", "orjson"))
    libraries = numpy.with_name("numpy.libs")
    for package in (numpy, orjson, *([libraries] if libraries.is_dir() else [])):
        for path in _walk(package):
            yield f"{_CODE}/{path.relative_to(package.parent)}", path
    for package, parts in ((_folder(carico_core.__file__), _CORE), (_folder(carico_local.__file__), _LOCAL)):
        for part in parts:
            for path in sorted(package.glob(part)):
                yield f"{_CODE}/{path.relative_to(package.parent)}", path


def _folder(module_file: str | None) -> pathlib.Path:
    assert module_file is not None, "a package with an __init__ has a file"
    return pathlib.Path(module_file).parent


def _walk(top: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, children, names in os.walk(top):
        children[:] = [child for child in children if child not in _LEFT_OUT and not child.startswith("config-")]
        for name in names:
            if not name.endswith((".a", ".pyi")):
                yield pathlib.Path(folder) / name


def _is_shared(path: pathlib.Path) -> bool:
    return ".so" in path.suffixes

"""Images that nodes have from their start, made of this machine's files, so that nothing is pulled or built.

Sandboxes of Pods, and jobs that need but a shell, run this machine's busybox. The workloads of `carico submit` run the
Python that runs this tool: the interpreter, its library and numpy keep their places on this machine, and so does each
shared library that they name, so that nothing in them needs to know that it has moved. Their code lies in /carico.
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
from carico_local import job
from carico_local.binaries import cache
from carico_local.kubelets import configuration, image_archive

TAG = f"docker.io/{job.IMAGE}"
_SHELL_COMMANDS = ("sh", "sleep", "cat", "echo", "wget", "nslookup", "dd")
_CODE = "/carico"
_PROGRAM = "import sys\n\nfrom carico_local.workloads import main\n\nsys.exit(main.main())\n"
# What the workloads import of our own, and no more: any other change would be another image.
_CORE = ("__init__.py", "domain/*.py", "runtime/__init__.py", "runtime/process/__init__.py", "runtime/process/clock.py")
_LOCAL = ("__init__.py", "workloads/*.py")
# Images are large and each new version of ours makes one; clusters that still run may use those of before.
_KEPT = 3
# Of Python's library: what no workload imports, and others' packages.
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
     "pydoc_data")
)  # fmt: skip


def ensure_sandbox(busybox: pathlib.Path, environ: Mapping[str, str]) -> pathlib.Path:
    """Return the archive of the sandboxes' image, made where the user's cache has none. Raises `EnvironmentUnfit`."""
    image = image_archive.Image(
        tag=configuration.SANDBOX_IMAGE,
        # A static one names no library; any other brings its own.
        files={"/bin/busybox": busybox, **image_archive.shared_libraries([busybox])},
        links={f"/bin/{name}": "busybox" for name in _SHELL_COMMANDS},
        environ={"PATH": "/bin"},
        command=("/bin/busybox", "sleep", "2147483647"),
    )
    target = cache.directory(environ) / f"sandbox-{image.key}.tar"
    with cache.locked(target, lambda: None):
        if not target.exists():
            try:
                image_archive.write(image, target)
            except OSError as error:
                raise errors.EnvironmentUnfit(f"no image of Pods' sandboxes: {error}") from error
    return target


def ensure_workloads(environ: Mapping[str, str], *, tell: Callable[[str], None]) -> pathlib.Path:
    """Return the archive of the workloads' image, made where the user's cache has none. Raises `EnvironmentUnfit`."""
    image = of_this_python()
    target = cache.directory(environ) / f"workload-{image.key}.tar"
    with cache.locked(target, lambda: None):
        if not target.exists():
            tell(f"making the workloads' image {job.IMAGE} of this Python (once)")
            try:
                image_archive.write(image, target)
            except OSError as error:
                raise errors.EnvironmentUnfit(f"no image of the workloads: {error}") from error
            _remove_old(target.parent)
    return target


def of_this_python() -> image_archive.Image:
    """Return the workloads' image: interpreter, library, numpy, workloads, and the shared libraries of them all."""
    interpreter = pathlib.Path(sys.executable).resolve()
    library = {str(path): path for path in _library()}
    code = dict(_code())
    machine_code = [interpreter, *(path for path in (*library.values(), *code.values()) if _is_shared(path))]
    # numpy's own libraries lie next to it, in their new place too.
    beside = set(code.values())
    shared = {name: path for name, path in image_archive.shared_libraries(machine_code).items() if path not in beside}
    files = {str(interpreter): interpreter, **library, **shared, **code}
    return image_archive.Image(
        tag=TAG,
        files=files,
        scripts={"/usr/local/bin/carico-workload": f"#!{interpreter}\n{_PROGRAM}"},
        # A node's Pods share its cores: BLAS must not start a thread for each of the machine's.
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": _CODE, "PYTHONUNBUFFERED": "1",
                 "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
        command=("carico-workload", "--help"),
    )  # fmt: skip


def _remove_old(folder: pathlib.Path) -> None:
    newest_first = sorted(folder.glob("workload-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_KEPT:]:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


def _library() -> Iterator[pathlib.Path]:
    for folder in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED"))):
        yield from _walk(pathlib.Path(folder))


def _code() -> Iterator[tuple[str, pathlib.Path]]:
    """Yield what lies in /carico: numpy with the libraries that its wheel brings, and of our own what runs in a Pod."""
    # Found and not imported: it would stay in every process that starts a node.
    numpy = _folder(getattr(importlib.util.find_spec("numpy"), "origin", None))
    beside = numpy.with_name("numpy.libs")
    for package in (numpy, *([beside] if beside.is_dir() else [])):
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

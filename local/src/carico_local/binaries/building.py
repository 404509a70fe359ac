"""Builds commands of one wrapper module into the cache; what is there already is not built again."""

import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.binaries import cache, catalog, progress, toolchain
from carico_local.cluster import processes

PROGRESS_EVERY_S = 1.0
_LAST_WORDS = 400


def directory(module: catalog.Module, environ: Mapping[str, str]) -> pathlib.Path:
    """Return where the module's commands are kept, each under its own name."""
    return cache.directory(environ) / f"{module.folder}-{module.version}-{module.key}"


def built(
    module: catalog.Module, tools: Sequence[catalog.Tool], environ: Mapping[str, str], *,
    clock: clocks.Clock, tell: progress.Tell,
) -> dict[str, pathlib.Path]:  # fmt: skip
    """Return the paths of commands of one module by name, built where they are missing. Raises `EnvironmentUnfit`."""
    target = directory(module, environ)
    paths = {tool.name: target / tool.name for tool in tools}
    if all(path.exists() for path in paths.values()):
        return paths
    what = f"{module.folder} {module.version}"
    with cache.locked(target, lambda: tell(progress.Progress(text=f"waiting for another process that builds {what}"))):
        # Another process may have built them while this one waited.
        missing = [tool for tool in tools if not paths[tool.name].exists()]
        if missing:
            _Build(module, missing, environ, clock=clock, tell=tell).into(target)
    return paths


class _Build:
    """One run of `go build`."""

    def __init__(
        self, module: catalog.Module, tools: Sequence[catalog.Tool], environ: Mapping[str, str], *,
        clock: clocks.Clock, tell: progress.Tell,
    ) -> None:  # fmt: skip
        self._module = module
        self._tools = tools
        self._environ = environ
        self._clock = clock
        self._tell = tell
        self._began_s = self._told_s = clock.monotonic_s()
        self._fetched = self._compiled = 0

    def into(self, target: pathlib.Path) -> None:
        """Build the commands into `target`; each appears there whole."""
        names = ", ".join(tool.name for tool in self._tools)
        go = toolchain.go(self._environ, self._tell)
        self._tell(progress.Progress(text=f"building {names} {self._module.version} from source (once, minutes)"))
        partial = target / ".partial"
        # The process that left it has ended: the lock is ours.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            self._run(go, partial)
            for tool in self._tools:
                # Go names a command after its package's path, and etcd's ends in the major version.
                (partial / tool.name).rename(target / tool.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        spent_s = self._clock.monotonic_s() - self._began_s
        self._tell(progress.Progress(text=f"built {names} {self._module.version} in {spent_s:.0f} s"))

    def _run(self, go: pathlib.Path, partial: pathlib.Path) -> None:
        flags = ["-v", *catalog.BUILD_FLAGS, "-ldflags", self._module.ldflags]
        if len(self._tools) == 1:
            output, packages = partial / self._tools[0].name, [self._tools[0].package]
        else:
            # One run for all: what they share is compiled once, and both processors are kept busy.
            output, packages = partial, [tool.package for tool in self._tools]
        self._follow([str(go), "build", *flags, "-o", str(output), *packages])

    def _follow(self, command: list[str]) -> None:
        # A workspace file or flags of the user's own would change what is built.
        environ = {**self._environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
        with subprocess.Popen(
            command, cwd=self._module.directory, env=environ, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=processes.end_with_parent(),
        ) as process:  # fmt: skip
            assert process.stderr is not None
            try:
                complaints = [line for line in process.stderr if not self._took(line.strip())]
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise self._failed(complaints)

    def _took(self, line: str) -> bool:
        """Return True for a line of progress: a module fetched, a package compiled."""
        if line.startswith("go: downloading "):
            self._fetched += 1
        elif " " not in line and "/" in line:
            self._compiled += 1
        else:
            # Packages of the standard library have no slash, or are one word.
            return " " not in line
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s >= PROGRESS_EVERY_S:
            self._told_s = now_s
            self._tell(progress.Progress(text=self._line(now_s - self._began_s), passing=True))
        return True

    def _line(self, spent_s: float) -> str:
        fetched = f"{self._fetched} modules fetched, " if self._fetched else ""
        what = f"building {self._module.folder} {self._module.version}"
        return f"{what}: {fetched}{self._compiled} packages compiled, {spent_s:.0f} s"

    def _failed(self, complaints: list[str]) -> errors.EnvironmentUnfit:
        said = [line.strip() for line in complaints if line.strip() and not line.startswith("#")]
        why = (said or ["go build gave no reason"])[0][:_LAST_WORDS]
        names = ", ".join(tool.name for tool in self._tools)
        return errors.EnvironmentUnfit(
            f"{names} {self._module.version} cannot be built: {why}; put them into PATH or KUBEBUILDER_ASSETS, "
            "or let Go reach a module proxy (GOPROXY)"
        )

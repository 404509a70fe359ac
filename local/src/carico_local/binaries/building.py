"""Builds the commands of one wrapper module into the cache, unless they are there already."""

import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.binaries import cache, catalog, toolchain
from carico_local.cluster import processes

PROGRESS_EVERY_S = 1.0
_REASON_MOST = 400


def directory(module: catalog.Module, environ: Mapping[str, str]) -> pathlib.Path:
    """Return the directory of the module's commands."""
    return cache.directory(environ) / f"{module.folder}-{module.version}-{module.key}"


def built(
    module: catalog.Module, tools: Sequence[catalog.Tool], environ: Mapping[str, str], *,
    clock: clocks.Clock, report: cache.Report,
) -> dict[str, pathlib.Path]:  # fmt: skip
    """Return the paths of a module's commands by name; build missing ones. Raises `EnvironmentUnfit`."""
    target = directory(module, environ)
    paths = {tool.name: target / tool.name for tool in tools}
    if all(path.exists() for path in paths.values()):
        return paths
    what = f"{module.folder} {module.version}"
    with cache.locked(target, lambda: report(cache.Progress(text=f"waiting for another process that builds {what}"))):
        # Another process may have built them while this one waited.
        missing = [tool for tool in tools if not paths[tool.name].exists()]
        if missing:
            _Build(module, missing, environ, clock=clock, report=report).into(target)
    return paths


class _Build:
    """One run of `go build`."""

    def __init__(
        self, module: catalog.Module, tools: Sequence[catalog.Tool], environ: Mapping[str, str], *,
        clock: clocks.Clock, report: cache.Report,
    ) -> None:  # fmt: skip
        self._module = module
        self._tools = tools
        self._environ = environ
        self._clock = clock
        self._report = report
        self._began_s = self._reported_s = clock.monotonic_s()
        self._fetched = self._compiled = 0

    def into(self, target: pathlib.Path) -> None:
        """Build the commands into `target`; each appears there atomically."""
        names = ", ".join(tool.name for tool in self._tools)
        go = toolchain.go(self._environ, self._report)
        self._report(cache.Progress(text=f"building {names} {self._module.version} from source (once, minutes)"))
        partial = target / ".partial"
        # This process has the lock, so the one that left this directory has ended.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            self._run(go, partial)
            for tool in self._tools:
                # Each is built under the tool's name: Go's own, the last part of the package's path, is `v3` for etcd.
                (partial / tool.name).rename(target / tool.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        spent_s = self._clock.monotonic_s() - self._began_s
        self._report(cache.Progress(text=f"built {names} {self._module.version} in {spent_s:.0f} s"))

    def _run(self, go: pathlib.Path, partial: pathlib.Path) -> None:
        flags = ["-v", *catalog.BUILD_FLAGS, "-ldflags", self._module.ldflags]
        if len(self._tools) == 1:
            output, packages = partial / self._tools[0].name, [self._tools[0].package]
        else:
            # One run for all: shared packages are compiled once, and all processors are kept busy.
            output, packages = partial, [tool.package for tool in self._tools]
        self._follow([str(go), "build", *flags, "-o", str(output), *packages])

    def _follow(self, command: list[str]) -> None:
        # The user's own workspace file or flags would change the build.
        environ = {**self._environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
        with subprocess.Popen(
            command, cwd=self._module.directory, env=environ, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=processes.end_with_parent(),
        ) as process:  # fmt: skip
            assert process.stderr is not None
            try:
                errors_seen = [line for line in process.stderr if not self._is_progress(line.strip())]
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise self._failed(errors_seen)

    def _is_progress(self, line: str) -> bool:
        """Count and report progress; return True for such a line: a module fetched, a package compiled."""
        if line.startswith("go: downloading "):
            self._fetched += 1
        elif " " not in line and "/" in line:
            self._compiled += 1
        else:
            # Packages of the standard library have no slash, or are one word.
            return " " not in line
        now_s = self._clock.monotonic_s()
        if now_s - self._reported_s >= PROGRESS_EVERY_S:
            self._reported_s = now_s
            self._report(cache.Progress(text=self._line(now_s - self._began_s), passing=True))
        return True

    def _line(self, spent_s: float) -> str:
        fetched = f"{self._fetched} modules fetched, " if self._fetched else ""
        what = f"building {self._module.folder} {self._module.version}"
        return f"{what}: {fetched}{self._compiled} packages compiled, {spent_s:.0f} s"

    def _failed(self, lines: list[str]) -> errors.EnvironmentUnfit:
        reasons = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        why = (reasons or ["go build gave no reason"])[0][:_REASON_MOST]
        names = ", ".join(tool.name for tool in self._tools)
        return errors.EnvironmentUnfit(
            f"cannot build {names} {self._module.version}: {why}; put them into PATH or KUBEBUILDER_ASSETS, "
            "or give Go access to a module proxy (GOPROXY)"
        )

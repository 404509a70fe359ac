"""A Docker engine, by its own command."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import errors

TIMEOUT_S = 120.0
_BUILD_TIMEOUT_S = 1200.0
_LAST_WORDS = 400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine; `environ` finds the command (PATH) and names the engine (DOCKER_HOST)."""

    environ: Mapping[str, str]

    @property
    def command(self) -> str:
        """The docker command. Raises `EnvironmentUnfit`."""
        found = shutil.which("docker", path=self.environ.get("PATH", os.defpath))
        if found is None:
            raise errors.EnvironmentUnfit("no docker command on PATH")
        return found

    def check(self) -> None:
        """Raise `EnvironmentUnfit` where no engine answers."""
        done = self._attempt(["version", "--format", "{{.Server.Version}}"])
        if done.returncode != 0:
            raise errors.EnvironmentUnfit(f"no Docker engine answers ({_last(done.stderr)})")

    def run(self, *arguments: str, given: bytes | None = None, timeout_s: float = TIMEOUT_S) -> str:
        """What `docker arguments` printed. Raises `EngineRefused` with its last words."""
        done = self._attempt(arguments, given=given, timeout_s=timeout_s)
        if done.returncode != 0:
            raise EngineRefused(" ".join(arguments[:2]), _last(done.stderr))
        return done.stdout.decode(errors="replace").strip()

    def build(self, *arguments: str, given: bytes | None = None) -> None:
        """Run `docker build arguments`, with `given` on its standard input. Raises `EngineRefused`."""
        self.run("build", "--quiet", *arguments, given=given, timeout_s=_BUILD_TIMEOUT_S)

    def has_image(self, tag: str) -> bool:
        """Whether the engine holds an image of that tag."""
        return self._attempt(["image", "inspect", tag]).returncode == 0

    def inspect(self, *arguments: str) -> list[dict[str, Any]]:
        """What `docker inspect` says. Raises `EngineRefused`."""
        found: list[dict[str, Any]] = json.loads(self.run("inspect", *arguments))
        return found

    @contextlib.contextmanager
    def saved(self, images: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A process that writes an archive of images to its standard output."""
        with subprocess.Popen(
            [self.command, "save", *images], env=dict(self.environ), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def _attempt(
        self, arguments: Sequence[str], *, given: bytes | None = None, timeout_s: float = TIMEOUT_S
    ) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                [self.command, *arguments], env=dict(self.environ), input=given or b"", capture_output=True,
                check=False, timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise EngineRefused(" ".join(arguments[:2]), f"no answer within {timeout_s:.0f} s") from error


class EngineRefused(errors.EnvironmentUnfit):
    """The engine did not do what it was asked for."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"docker {what} failed: {why}")
        self.why = why


def _last(said: bytes) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    # docker ends with a hint at its own help.
    told = [line for line in lines if line and not line.startswith("See ")] or ["no word why"]
    return told[-1][:_LAST_WORDS]

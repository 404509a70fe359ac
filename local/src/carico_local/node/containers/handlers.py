"""The handlers of probes: an HTTP request, a TCP connection, a command.

Source: kubernetes/pkg/probe.
"""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import signal
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from carico_local.node.runtime import landlock, users

# A kubelet keeps this much output of a probe's command.
OUTPUT_BYTES = 10_240
_SHOWN_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpGet:
    """Succeeds where the answer has status 200 to 399. `host` empty: the Pod's address."""

    path: str
    port: int
    host: str
    is_tls: bool
    headers: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TcpSocket:
    """Succeeds where a connection is accepted."""

    port: int
    host: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """Succeeds where a command in the container exits with 0."""

    command: tuple[str, ...]


Handler = HttpGet | TcpSocket | Exec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The context of a container's commands. `procs`: the files by which a process joins the container's cgroup."""

    address: str
    env: Mapping[str, str]
    cwd: str
    procs: tuple[str, ...]
    user: users.Ids | None = None
    # Folders whose files a container may not read, except those that its node shares with it.
    closed: tuple[str, ...] = ()
    shared: pathlib.Path | None = None

    def enter(self) -> None:
        """Move this process, a new child, into the context. Raises OSError."""
        for name in self.procs:
            pathlib.Path(name).write_text("0", encoding="ascii")
        if self.user is not None:
            users.become(self.user)
        landlock.close(self.closed, still_open=() if self.shared is None else (self.shared,))


def parse(entry: Mapping[str, Any] | None, ports: Mapping[str, int]) -> Handler | None:
    """Return the handler of a probe; None for an unknown kind. `ports`: by name. Raises `ValueError`."""
    if not entry:
        return None
    if http := entry.get("httpGet"):
        headers = tuple((each["name"], each["value"]) for each in http.get("httpHeaders") or ())
        return HttpGet(
            path=http.get("path") or "/", port=_port(http["port"], ports), host=http.get("host") or "",
            is_tls=str(http.get("scheme") or "").upper() == "HTTPS", headers=headers,
        )  # fmt: skip
    if tcp := entry.get("tcpSocket"):
        return TcpSocket(port=_port(tcp["port"], ports), host=tcp.get("host") or "")
    if "exec" in entry:
        return Exec(command=tuple((entry["exec"] or {}).get("command") or ()))
    return None


async def perform(handler: Handler, inside: Inside, *, timeout_s: float) -> str | None:
    """Run a handler; return None where it succeeded, else the reason."""
    try:
        async with asyncio.timeout(timeout_s):
            match handler:
                case HttpGet():
                    return await _get(handler, handler.host or inside.address)
                case TcpSocket():
                    return await _connect(handler, handler.host or inside.address)
                case Exec():
                    return await _execute(handler, inside)
    except TimeoutError:
        return f"command timed out after {timeout_s:g}s" if isinstance(handler, Exec) else "no answer in time"


def _port(value: Any, ports: Mapping[str, int]) -> int:
    try:
        return int(ports.get(value, value))
    except ValueError:
        raise ValueError(f"names port {value!r}, which the container does not have") from None


async def _get(handler: HttpGet, host: str) -> str | None:
    writer = None
    scheme = "https" if handler.is_tls else "http"
    try:
        reader, writer = await asyncio.open_connection(
            host, handler.port, ssl=_unverified() if handler.is_tls else None
        )
        lines = [f"GET {handler.path} HTTP/1.1", f"Host: {host}", "User-Agent: kube-probe", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in handler.headers if "\r" not in value and "\n" not in value]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        words = (await reader.readline()).split()
    except (OSError, ValueError) as error:  # ValueError: a first line without end
        return f"Get {scheme}://{host}:{handler.port}{handler.path}: {error}"
    finally:
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()
    code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


def _unverified() -> ssl.SSLContext:
    """Return TLS without verification, as in a kubelet: a probe asks whether a server answers, not which one."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _connect(handler: TcpSocket, host: str) -> str | None:
    try:
        _, writer = await asyncio.open_connection(host, handler.port)
    except OSError as error:
        return f"dial tcp {host}:{handler.port}: {error.strerror or error}"
    writer.close()
    return None


async def _execute(handler: Exec, inside: Inside) -> str | None:
    """Run a command with the container's environment, directory and cgroup; return None on success, else the reason."""
    # The shell reports a command that is not found, with code 127, as in a container. It enters the directory as the
    # container's user: Popen's `cwd` would be entered as the node's, also through links that the Pod has made.
    argv: Sequence[str] = ("/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", inside.cwd, *handler.command)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, env=dict(inside.env), cwd="/", stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            preexec_fn=inside.enter,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"exec: {error}"
    assert process.stdout is not None
    try:
        output = b""
        while more := await process.stdout.read(OUTPUT_BYTES):
            output = (output + more)[:OUTPUT_BYTES]
        code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = output[:_SHOWN_BYTES].decode(errors="replace").strip()
    return None if code == 0 else text or f"command exited with {code}"

"""A real containerd of the tests' own: its folders and socket are temporary and leave no trace."""

import asyncio
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator

from tests.tools import debian

STARTUP_S = 120.0
END_S = 60.0
# Where containerd's shims put their sockets, whatever the daemon's own state folder is.
SHIM_STATE = pathlib.Path("/run/containerd")

CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
plugin_dir = "{folder}/plugins"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true
disable_apparmor = true
disable_tcp_service = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{folder}/cni"
bin_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""
# Built here: nothing is pulled.
IMAGE = "carico.invalid/sleep:1"


@dataclasses.dataclass(slots=True, kw_only=True)
class Containerd:
    """A containerd."""

    folder: pathlib.Path
    commands: dict[str, pathlib.Path]
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> pathlib.Path:
        return self.folder / "containerd.sock"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        folders = {str(path.parent) for path in self.commands.values()}
        environment = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
        command = [str(self.commands["containerd"]), "--config", str(self.folder / "config.toml")]
        with (self.folder / "log").open("ab") as log:
            self.process = process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        _until(lambda: self.socket.exists() or process.poll() is not None, STARTUP_S)
        assert process.poll() is None and self.socket.exists(), (self.folder / "log").read_text()[-2000:]

    def stop(self) -> None:
        """Stop it, and wait until it has ended; its containers keep running."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(END_S)
        self.socket.unlink(missing_ok=True)

    async def run(self, name: str, *, uid: str, kind: str) -> None:
        """A container with the labels that the CRI plugin gives a Pod's, and its task running."""
        labels = ("--label", f"io.kubernetes.pod.uid={uid}", "--label", f"io.cri-containerd.kind={kind}")
        # No cgroup of its own: none is left behind.
        own = ("--cgroup", "", "--runc-root", str(self.folder / "runc"), "--rootfs")
        await self.ctr(
            "run", "--detach", "--null-io", *own, *labels, str(self.folder / "rootfs"), name, "/sleep", "600"
        )

    async def ctr(self, *arguments: str) -> str:
        """What a `ctr` command in the namespace of the kubelet prints. Raises `AssertionError` where it fails."""
        process = await asyncio.create_subprocess_exec(
            str(self.commands["ctr"]), "--address", str(self.socket), "--namespace", "k8s.io", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 0, f"ctr {' '.join(arguments)}: {err.decode()}"
        return out.decode()

    async def import_image(self) -> None:
        """Import `IMAGE`, which holds one static command."""
        archive = self.folder / "image.tar"
        _write_image(archive, self.commands["busybox"])
        await self.ctr("images", "import", "--snapshotter", "native", str(archive))

    async def clear(self) -> None:
        """End everything that runs."""
        names = (await self.ctr("container", "list", "--quiet")).split()
        tasks = (await self.ctr("task", "list", "--quiet")).split()
        for name in names:
            if name in tasks:
                await self.ctr("task", "delete", "--force", name)
            await self.ctr("container", "delete", name)


@contextlib.contextmanager
def started() -> Iterator[Containerd]:
    """A containerd of the tests' own. Raises `EnvironmentUnfit` where its packages cannot be had."""
    commands = debian.unpacked(debian.CONTAINERD)
    stranger = SHIM_STATE.exists()
    # A unix socket's path is short: pytest's folders are too deep.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="carico-ctd-"))
    (folder / "rootfs").mkdir()
    shutil.copy(commands["busybox"], folder / "rootfs" / "sleep")
    (folder / "config.toml").write_text(CONFIG.format(folder=folder, image=IMAGE))
    made = Containerd(folder=folder, commands=commands)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        left = _processes_of(folder)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lines = pathlib.Path("/proc/mounts").read_text().splitlines()
        mounts = [line.split()[1] for line in lines if str(folder) in line.split()[1]]
        for mount in reversed(mounts):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(folder)
        if not stranger:
            _remove_empty(SHIM_STATE)
        assert not left, "shims outlived their containerd"
        assert not mounts, mounts


def _write_image(archive: pathlib.Path, command: pathlib.Path) -> None:
    """An image as `docker save` writes it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(command, "sleep")
    layers = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]}
    entry = {"Entrypoint": ["/sleep", "600"]}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    config = json.dumps({"architecture": machine, "os": "linux", "config": entry, "rootfs": layers}).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as tar:
        for path, data in ((name, config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            entry_of = tarfile.TarInfo(path)
            entry_of.size = len(data)
            tar.addfile(entry_of, io.BytesIO(data))


def _processes_of(folder: pathlib.Path) -> list[int]:
    """Processes whose command names the folder, once those that are about to end have ended: shims."""

    def find() -> list[int]:
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.fsencode(folder) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    _until(lambda: not find(), END_S)
    return find()


def _until(wanted: object, within_s: float) -> None:
    assert callable(wanted)
    deadline = time.monotonic() + within_s
    while not wanted() and time.monotonic() < deadline:
        time.sleep(0.05)


def _remove_empty(folder: pathlib.Path) -> None:
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        with contextlib.suppress(OSError):
            path.rmdir()

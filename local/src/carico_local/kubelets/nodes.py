"""Nodes as containers: started, given images, ended; and a sweep for what a killed tool has left."""

import contextlib
import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Sequence
from concurrent import futures

from carico_core.domain import errors
from carico_local.control_plane import identity
from carico_local.kubelets import configuration, instructions, network
from carico_local.kubelets import engine as engines

# capabilities(7), in the order of their numbers. Listed one by one, since `--privileged` asks for all there are, and an
# engine in a virtual machine may lack some. Those above 37 are younger than engines still in use, and not needed.
_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ"
)
# Below the hard limit of engines that were started without the right to raise it.
_MOST_FILES = 20000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The nodes of one cluster. `directory` holds what each is told, keys too; `image` is what they run.

    archives: images that a node has from its start, beside the sandbox's.
    """

    engine: engines.Engine
    cluster: str
    directory: pathlib.Path
    image: str
    network: network.Network
    nodes: Sequence[configuration.Node]
    archives: Sequence[pathlib.Path] = ()

    def write(self, identities: identity.Identities, *, url: str, machine: configuration.Machine) -> None:
        """Writes each node's files; `identities` must know `instructions.users(nodes)`."""
        instructions.write(
            self.directory, nodes=self.nodes, network=self.network.addresses, cluster=self.cluster,
            identities=identities, url=url, machine=machine,
        )  # fmt: skip

    def arguments(self, node: configuration.Node) -> list[str]:
        """What `docker run` is told of a node."""
        cpus, memory = f"{node.cpus:g}", str(node.memory_bytes)
        confined = ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined")
        return [
            "--name", self.container(node), "--hostname", node.name,
            "--label", f"{engines.LABEL}={self.cluster}",
            "--network", self.network.name, "--ip", node.address(self.network.addresses),
            "--cpus", cpus, "--memory", memory, "--cgroupns", "private", "--init",
            *(argument for name in _capabilities() for argument in ("--cap-add", name)),
            *(argument for option in confined for argument in ("--security-opt", option)),
            "--device-cgroup-rule", "a *:* rwm", *_devices(),
            "--ulimit", f"nofile={_MOST_FILES}", "--tmpfs", "/run", "--tmpfs", "/tmp",
            "--volume", f"{self._folder(node)}:/carico:ro",
            *(argument for path in self.archives for argument in ("--volume", f"{path}:/carico-images/{path.name}:ro")),
            *_modules(),
            self.image,
        ]  # fmt: skip

    def start(self, node: configuration.Node) -> None:
        """Nothing, once the node's container runs; its kubelet registers by itself. Raises `EnvironmentUnfit`."""
        self.engine.run("run", "--detach", *self.arguments(node))

    def remove(self, node: configuration.Node) -> None:
        """Nothing; the node's container is gone, with all that ran in it."""
        with contextlib.suppress(engines.EngineRefused):
            self.engine.run("rm", "--force", "--volumes", self.container(node))

    def load(self, images: Sequence[str]) -> None:
        """Nothing, once each node's containerd has the engine's images. Raises `EnvironmentUnfit`."""
        with futures.ThreadPoolExecutor(max_workers=len(self.nodes)) as pool:
            list(pool.map(lambda node: self._load(node, images), self.nodes))

    def _load(self, node: configuration.Node, images: Sequence[str]) -> None:
        with self.engine.saved(images) as archive:
            arguments = ("exec", "--interactive", self.container(node), *_IMPORT)
            try:
                done = subprocess.run(
                    [self.engine.command, *arguments], env=dict(self.engine.environ), stdin=archive.stdout,
                    capture_output=True, check=False, timeout=engines.TIMEOUT_S,
                )  # fmt: skip
                why = "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or "no word why"
            except subprocess.TimeoutExpired:
                why = f"no answer within {engines.TIMEOUT_S:.0f} s"
        if why:
            raise errors.EnvironmentUnfit(f"{node.name} did not take {', '.join(images)}: {why}")

    def logs(self, node: configuration.Node) -> str:
        """What the node has written so far."""
        done = subprocess.run(
            [self.engine.command, "logs", "--tail", "100", self.container(node)], env=dict(self.engine.environ),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.stdout.decode(errors="replace")

    def container(self, node: configuration.Node) -> str:
        """The name of the node's container."""
        return f"carico-{self.cluster}-{node.name}"

    def _folder(self, node: configuration.Node) -> pathlib.Path:
        return self.directory / node.name


def sweep(engine: engines.Engine, cluster: str) -> None:
    """Nothing; no container, volume or network of the cluster is left. What it ran, mounted and routed went with it."""
    containers = engine.ours("container", cluster)
    if containers:
        engine.run("rm", "--force", "--volumes", *containers)
    networks = engine.ours("network", cluster)
    if networks:
        engine.run("network", "rm", *networks)


_IMPORT = ("ctr", "--namespace", "k8s.io", "images", "import", "-")


def _capabilities() -> list[str]:
    """Those that this machine has to give."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE)
    given = -1 if found is None else int(found[1], 16)
    return [name for bit, name in enumerate(_CAPABILITIES.split()) if given >> bit & 1]


def _devices() -> list[str]:
    # The kubelet watches it for the kernel's out-of-memory messages, and does not start without.
    return ["--device", "/dev/kmsg"] if pathlib.Path("/dev/kmsg").exists() else []


def _modules() -> list[str]:
    # kube-proxy looks up which modules there are.
    return ["--volume", "/lib/modules:/lib/modules:ro"] if pathlib.Path("/lib/modules").is_dir() else []

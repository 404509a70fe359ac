"""The specs' cluster of real kubelets with agents that measure them: `carico up --nodes kubelet`, one node a zone.

CARICO serves every Pod while kube-scheduler, and the cluster's own scheduler, which serves `carico` alone, are
suspended. The specs' Pods get stand-ins of Kubernetes' images, made of this machine's shell: one that sleeps until it
is told to end, one that serves its name over HTTP.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping

import yaml

from carico_core.runtime.kube import api_actions
from carico_local.cluster import folders, state
from carico_local.control_plane import commands
from carico_local.kubelets import image_archive, programs
from carico_local.played_nodes import nodes as played
from tests.e2e import carico_command
from tests.tools import debian, kubernetes
from tests.upstream import suite_stage

NAME = "upstream"
NODES = 2
FLAGS = ("--nodes", f"kubelet={NODES}", "--cores", "4", "--scale", "0.5")
# The registry in the stand-ins' names; a node has the images, and asks no registry.
REGISTRY = "carico.test"
_REGISTRIES = {"gcRegistry": REGISTRY, "promoterE2eRegistry": f"{REGISTRY}/e2e"}
_UNTIL_TOLD_TO_END = "trap 'exit 0' TERM INT\nwhile :; do wait; done\n"
_PAUSE = f"#!/bin/busybox sh\nbusybox sleep 2147483647 &\n{_UNTIL_TOLD_TO_END}"
_SERVE = (
    "#!/bin/busybox sh\nbusybox mkdir -p /www\nbusybox hostname > /www/hostname\n"
    f"busybox httpd -f -p {{port}} -h /www &\n{_UNTIL_TOLD_TO_END}"
)
# By the argument of agnhost (test/images/agnhost), whose ports these are by default.
_SERVERS = {"netexec": 8080, "serve-hostname": 9376}


@contextlib.asynccontextmanager
async def started(scheduler: str, root: pathlib.Path) -> AsyncIterator[suite_stage.Stage]:
    """Run a cluster in which this one scheduler serves every Pod."""
    wanted = (*programs.KUBERNETES, "metrics-server", commands.SCHEDULER)
    kubernetes.programs(*wanted)
    shell = carico_command.Shell(root)
    shell.environ |= debian.node_environ(root / "commands")
    registries = root / "registries.yaml"
    registries.write_text(yaml.safe_dump(_REGISTRIES), encoding="utf-8")
    environ = {"KUBE_TEST_REPO_LIST": str(registries)}
    async with carico_command.cluster(shell, NAME, *FLAGS) as paths:
        pause = await asyncio.to_thread(_give_images, shell, paths, environ)
        api = await suite_stage.connect(paths.kubeconfig)
        names = [f"node-{number}" for number in range(1, NODES + 1)]
        try:
            for name in names:
                zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": f"zone-of-{name}"}}}
                path = f"{played.NODES_PATH}/{name}"
                await api.request("PATCH", path, body=zone, content_type=api_actions.MERGE_PATCH)
            await suite_stage.prepare(api, names, image=pause)
        finally:
            await api.close()
        with contextlib.ExitStack() as stack:
            if scheduler == suite_stage.CARICO:
                stack.enter_context(_carico(paths, root))
            yield suite_stage.Stage(kubeconfig=paths.kubeconfig, nodes=NODES, environ=environ)


def _give_images(shell: carico_command.Shell, paths: folders.Paths, environ: Mapping[str, str]) -> str:
    """Import the stand-ins into each node; return the name of the one that sleeps."""
    suite = str(kubernetes.programs(suite_stage.PROGRAM)[suite_stage.PROGRAM].path)
    listed = subprocess.run(
        [suite, "-list-images"], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    ).stdout.split()
    (pause,) = (each for each in listed if each.startswith(f"{REGISTRY}/pause:"))
    servers = [each for each in listed if each.startswith(f"{REGISTRY}/e2e/agnhost:")]
    busybox = programs.find(shell.environ).commands["busybox"]
    serving = {f"/bin/{name}": _SERVE.format(port=port) for name, port in _SERVERS.items()}
    made = [(pause, {"/bin/pause": _PAUSE}, ("/bin/pause",)), *((each, serving, ()) for each in servers)]
    for number, (tag, scripts, command) in enumerate(made):
        archive = shell.directory / f"image-{number}.tar"
        image = image_archive.Image(
            tag=tag, files={"/bin/busybox": busybox, **image_archive.shared_libraries([busybox])}, scripts=scripts,
            environ={"PATH": "/bin"}, command=command,
        )  # fmt: skip
        image_archive.write(image, archive)
        for pid_file in paths.run.glob("*.ready"):
            _import_image(archive, int(pid_file.read_text(encoding="ascii")), shell.environ)
    return pause


def _import_image(archive: pathlib.Path, pid: int, environ: Mapping[str, str]) -> None:
    """Import an image into the node whose first process has this id."""
    inside = ("nsenter", f"--target={pid}", "--mount", "/carico-bin/ctr", "--namespace=k8s.io", "images", "import", "-")
    with archive.open("rb") as content:
        subprocess.run(inside, stdin=content, env=dict(environ), capture_output=True, check=True)


@contextlib.contextmanager
def _carico(paths: folders.Paths, root: pathlib.Path) -> Iterator[None]:
    """Run a scheduler that serves every Pod, while the cluster's own are suspended."""
    found = state.read(paths)
    assert found is not None
    suspended = [each.process.pid for each in found.services
                 if each.name in (commands.SCHEDULER, "scheduler") and each.process is not None]  # fmt: skip
    assert len(suspended) == len(suite_stage.SCHEDULERS)
    common = ("--bus-url", found.nats_url, "--kubeconfig", str(paths.kubeconfig), "--http-port", "-1")
    for pid in suspended:
        os.kill(pid, signal.SIGSTOP)
    scheduler = suite_stage.start_service(root, "carico_scheduler", *common, *suite_stage.IN_ITS_PLACE)
    try:
        yield
        assert scheduler.poll() is None, f"the scheduler ended with {scheduler.returncode}"
    finally:
        scheduler.kill()
        scheduler.wait()
        for pid in suspended:
            os.kill(pid, signal.SIGCONT)

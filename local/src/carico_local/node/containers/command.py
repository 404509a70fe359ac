"""The command of a container, its directory and variables, and what its probes run inside it."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.node import settings
from carico_local.node.containers import config_objects, handlers, variables
from carico_local.node.reporting import events, reporter
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records, users
from carico_local.node.spec import container as container_spec
from carico_local.node.spec import pod as podspec
from carico_local.node.spec import sources
from carico_local.workloads import environment


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs: its Pod, the Pod's cgroup and address, and its restart policy."""

    pod: podspec.PodSpec
    group: groups.Group | None
    pod_ip: str
    restart_policy: str
    # The directory of the Pod's emptyDir volumes, one subdirectory each.
    volumes: pathlib.Path
    # ConfigMaps and Secrets for its variables.
    objects: config_objects.Objects
    # The container's restart count where the API shows it as running: if there is no record of it here, it is lost.
    was_running: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What the Pods of one node share. `group` None: process accounting, Pods are plain processes."""

    chosen: settings.NodeSettings
    clock: clocks.Clock
    group: groups.Group | None
    records: records.Records
    runtime: runtime.Runtime
    reporter: reporter.Reporter
    events: events.Events
    api: api_actions.Api
    users: users.ContainerUsers

    @property
    def amounts(self) -> Mapping[str, float]:
        """Capacity of the node in emulated units: the limit of a container that states none."""
        return {"cpu": self.chosen.cores, "memory": self.chosen.memory_bytes / self.chosen.scale}


class Commands:
    """Builds and runs the commands of one container."""

    def __init__(self, spec: container_spec.ContainerSpec, place: Place, node: NodeParts) -> None:
        self._spec = spec
        self._place = place
        self._node = node
        # The values from ConfigMaps and Secrets at the present start, once known.
        self._read: variables.Read | None = None

    @property
    def group(self) -> groups.Group | None:
        """The container's cgroup."""
        return None if self._place.group is None else self._place.group.child(self._spec.name)

    def id(self, number: int) -> str:
        """Return the id of one start of the container."""
        return f"{self._place.pod.uid}/{self._spec.name}/{number}"

    async def read(self) -> None:
        """Read the ConfigMaps and Secrets for the next start. Raises `config_objects.Unread`."""
        if self._spec.reads_objects:
            self._read = await variables.read(self._spec, self._place.objects)

    def make(self, number: int, directory: pathlib.Path) -> runtime.ContainerCommand:
        """Return the command of start `number`, whose records are in `directory`."""
        places = self._places()
        objects = self._of_objects(directory)
        found = self._variables(number, objects)
        own = {name for name, *_ in self._spec.env} | objects.whole.keys()
        return runtime.ContainerCommand(
            id=self.id(number),
            argv=[sources.moved(variables.expand(word, found), places) for word in self._spec.command],
            env={name: sources.moved(value, places) if name in own else value for name, value in found.items()},
            cwd=sources.moved(self._spec.cwd, places),
            directory=directory,
            group=self.group,
            oom_score_adj=self._place.pod.oom_score_adj(self._spec, node_bytes=self._node.amounts["memory"]),
            user=self._node.users.of(self._spec),
            folders=list(places.values()),
        )

    def make_files(self, number: int) -> None:
        """Create the directories and files of start `number`: records, volumes, termination message. Raises OSError.

        Directories of a subPath are left to the container's process: root must not follow links that a Pod has made.
        """
        kept, message = self._node.records, self._message(number)
        directory = kept.begin(self._place.pod.uid, self._spec.name, number)
        if self._read is not None:
            # Probes run with the container's variables, also under the node's next process.
            variables.save(directory / records.VARIABLES, self._read)
        user = self._node.users.of(self._spec)
        for folder in (message.parent, *([self._place.volumes] if self._spec.mounts else [])):
            kept.make_shared(folder)
        for name in {mount.volume for mount in self._spec.mounts}:
            volume = self._place.volumes / name
            if not volume.exists():
                volume.mkdir()
                if user is not None:
                    # As a kubelet's: containers of one Pod may have different users.
                    volume.chmod(0o777)
                    os.chown(volume, user.uid, user.gid)
        if user is not None:
            message.touch(mode=0o600)
            os.chown(message, user.uid, user.gid)

    def _message(self, number: int) -> pathlib.Path:
        return self._node.records.message(self._place.pod.uid, self._spec.name, number)

    async def perform(self, number: int, handler: handlers.Handler, *, timeout_s: float) -> str | None:
        """Run a probe of start `number`; return None where it succeeded, else the reason."""
        command = self.make(number, self._node.records.attempt(self._place.pod.uid, self._spec.name, number))
        procs = () if command.group is None else command.group.procs_files
        if isinstance(handler, handlers.Exec):
            places = self._places()
            handler = handlers.Exec(command=tuple(sources.moved(word, places) for word in handler.command))
        inside = handlers.Inside(
            address=self._place.pod_ip, env=command.env, cwd=command.cwd, procs=procs,
            user=command.user, closed=self._node.chosen.closed,
            shared=self._node.records.shared,
        )  # fmt: skip
        return await handlers.perform(handler, inside, timeout_s=timeout_s)

    def _of_objects(self, directory: pathlib.Path) -> variables.Read:
        if self._read is None and self._spec.reads_objects:
            self._read = variables.load(directory / records.VARIABLES)
        return self._read or variables.NOTHING_READ

    def _variables(self, number: int, objects: variables.Read) -> dict[str, str]:
        chosen, pod = self._node.chosen, self._place.pod
        base = {
            "PATH": runtime.container_path(),
            "HOME": "/",
            "HOSTNAME": pod.name,
            environment.SCALE: repr(chosen.scale),
            environment.MESSAGE: str(self._message(number)),
            environment.ADDRESS: self._place.pod_ip,
        }
        return variables.environment(
            pod, self._spec, base=base, pod_ip=self._place.pod_ip, host_ip=chosen.address, node=self._node.amounts,
            objects=objects,
        )  # fmt: skip

    def _places(self) -> dict[str, str]:
        """Return the host directory of each volume mount, by its path in the container."""
        return {
            mount.path: str(self._place.volumes / mount.volume / mount.sub_path.lstrip("/"))
            for mount in self._spec.mounts
        }

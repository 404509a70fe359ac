"""What a container runs, where, and with what; and what its hooks and probes run inside it."""

import dataclasses
import pathlib

from carico_local.cgroups import group as groups
from carico_local.node import site
from carico_local.node.containers import config_objects, handlers, variables
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records as files
from carico_local.node.spec import container as container_spec
from carico_local.node.spec import pod as podspec
from carico_local.node.spec import sources
from carico_local.workloads import main as workloads


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a container runs: its Pod, the Pod's cgroup and address, and whether its failures are retried."""

    pod: podspec.PodSpec
    group: groups.Group | None
    pod_ip: str
    restart_policy: str
    # The folder in which the Pod's emptyDir volumes are, each by its name.
    volumes: pathlib.Path
    # What its variables may come from.
    objects: config_objects.Objects
    # Restarts of the container where the API has it as running: without a record of it, it is lost.
    was_running: int | None = None


class Commands:
    """The commands of one container of a Pod on a node."""

    def __init__(self, spec: container_spec.ContainerSpec, place: Place, node: site.Site) -> None:
        self._spec = spec
        self._place = place
        self._node = node
        # What the variables of the present start were of objects, once that is known.
        self._read: variables.Read | None = None

    @property
    def group(self) -> groups.Group | None:
        """The container's cgroup."""
        return None if self._place.group is None else self._place.group.child(self._spec.name)

    def id(self, number: int) -> str:
        """Return the name of one start of the container."""
        return f"{self._place.pod.uid}/{self._spec.name}/{number}"

    async def read(self) -> None:
        """Read the objects that the next start's variables come from. Raises `config_objects.Unread`."""
        if self._spec.reads_objects:
            self._read = await variables.read(self._spec, self._place.objects)

    def keep(self, directory: pathlib.Path) -> None:
        """Keep what was read for the node's next process: probes have a container's variables."""
        if self._read is not None:
            variables.save(directory / files.VARIABLES, self._read)

    def make(self, number: int, directory: pathlib.Path) -> runtime.Command:
        """Return what is run at start `number`, whose files are in `directory`; its volumes are there."""
        places = self._places()
        for folder in map(pathlib.Path, places.values()):
            # With subPath it may be a file.
            if not folder.exists():
                folder.mkdir(parents=True, exist_ok=True)
        objects = self._of_objects(directory)
        found = self._variables(directory, objects)
        own = {name for name, *_ in self._spec.env} | objects.whole.keys()
        return runtime.Command(
            id=self.id(number),
            argv=[sources.moved(variables.expand(word, found), places) for word in self._spec.command],
            env={name: sources.moved(value, places) if name in own else value for name, value in found.items()},
            cwd=sources.moved(self._spec.cwd, places),
            directory=directory,
            group=self.group,
            oom_score_adj=self._place.pod.oom_score_adj(self._spec, node_bytes=self._node.amounts["memory"]),
        )

    async def perform(self, number: int, handler: handlers.Handler, *, timeout_s: float) -> str | None:
        """Return None where a hook or a probe of start `number` went well, else why not."""
        command = self.make(number, self._node.records.attempt(self._place.pod.uid, self._spec.name, number))
        procs = () if command.group is None else tuple(command.group.procs_files)
        if isinstance(handler, handlers.Exec):
            places = self._places()
            handler = handlers.Exec(command=tuple(sources.moved(word, places) for word in handler.command))
        inside = handlers.Inside(
            address=self._place.pod_ip, env=command.env, cwd=command.cwd, procs=tuple(map(str, procs))
        )
        return await handlers.perform(handler, inside, timeout_s=timeout_s)

    def _of_objects(self, directory: pathlib.Path) -> variables.Read:
        if self._read is None and self._spec.reads_objects:
            self._read = variables.load(directory / files.VARIABLES)
        return self._read or variables.NOTHING_READ

    def _variables(self, directory: pathlib.Path, objects: variables.Read) -> dict[str, str]:
        chosen, pod = self._node.chosen, self._place.pod
        base = {
            "PATH": runtime.container_path(),
            "HOME": "/",
            "HOSTNAME": pod.name,
            workloads.SCALE_VARIABLE: repr(chosen.scale),
            workloads.MESSAGE_VARIABLE: str(directory / files.MESSAGE),
            workloads.ADDRESS_VARIABLE: self._place.pod_ip,
        }
        return variables.environment(
            pod, self._spec, base=base, pod_ip=self._place.pod_ip, host_ip=chosen.address, node=self._node.amounts,
            objects=objects,
        )  # fmt: skip

    def _places(self) -> dict[str, str]:
        """Return the folder of each of the container's volumes, by the path it has in the container."""
        return {
            mount.path: str(self._place.volumes / mount.volume / mount.sub_path.lstrip("/"))
            for mount in self._spec.mounts
        }

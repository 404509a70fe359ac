"""The record of one run of a cluster: reported as events, and written to the state file for other shells."""

import contextlib

from carico_core.runtime.process import clock as clocks
from carico_local.cluster import events, folders, processes, state
from carico_local.cluster import plan as plans
from carico_local.cluster.services import topology

LAST_LINES = 15
CRASHES_KEPT = 50


class Account:
    """The state of the services and of the run; every change is reported and written at once."""

    def __init__(
        self,
        plan: plans.Plan,
        paths: folders.Paths,
        where: topology.Addresses,
        *,
        clock: clocks.Clock,
        report: events.Report,
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._where = where
        self._clock = clock
        self._report = report
        self._began_s = clock.monotonic_s()
        self._started_ns = clock.wall_ns()
        self.children: dict[str, processes.Child] = {}
        self._ready: set[str] = set()
        self._restarts: dict[str, int] = {}
        self._crashes: list[state.Crash] = []
        self._notes: list[str] = []
        self._phase = state.Phase.STARTING
        self.failure: str | None = None

    def is_ready(self, service: str) -> bool:
        """Return True where the service is ready and still runs."""
        return service in self._ready

    def started(self, service: str, child: processes.Child) -> None:
        """Record that a process of the service runs."""
        self.children[service] = child
        self._say(events.Kind.STARTED, service)
        self.write()

    def ready(self, service: str) -> None:
        """Record that the service is ready."""
        self._ready.add(service)
        self._say(events.Kind.READY, service)
        self.write()

    def ended(self, service: str) -> None:
        """Record that the service was ended in order to be started with a new command."""
        self._ready.discard(service)

    def crashed(self, service: str, child: processes.Child) -> state.Crash:
        """Record that the service ended unexpectedly; return how, with its last log lines."""
        self._ready.discard(service)
        code = child.process.returncode
        crash = state.Crash(
            service=service,
            at_ns=self._clock.wall_ns(),
            how=processes.exit_text(0 if code is None else code),
            last_lines=tuple(processes.last_lines(child.command.log, LAST_LINES)),
        )
        self._crashes = [*self._crashes, crash][-CRASHES_KEPT:]
        self._say(events.Kind.CRASHED, service, crash.how, crash)
        self.write()
        return crash

    def restarted(self, service: str) -> None:
        """Record that the service is about to be started again."""
        self._restarts[service] = self._restarts.get(service, 0) + 1
        self._say(events.Kind.RESTARTED, service)

    def note(self, text: str) -> None:
        """Report something about the run, once."""
        if text not in self._notes:
            self._notes.append(text)
            self._say(events.Kind.NOTE, text=text)

    def up(self) -> None:
        """Record that all is ready."""
        self._phase = state.Phase.READY
        self.write()
        self._say(events.Kind.UP)

    def failed(self, why: str, crash: state.Crash | None) -> None:
        """Record that the cluster failed or did not become ready."""
        self.failure = why
        self._phase = state.Phase.FAILED
        self._say(events.Kind.FAILED, text=why, crash=crash)
        self.write()

    def stopping(self) -> None:
        """Record that everything is being stopped; a failed run stays failed."""
        if self._phase is not state.Phase.FAILED:
            self._phase = state.Phase.STOPPING
        self.write()

    def write(self) -> None:
        """Write the state for other shells. On a full disk the cluster keeps running, and they see an older state."""
        with contextlib.suppress(OSError):
            state.write(self._paths, self._state())

    def _say(self, kind: events.Kind, service: str = "", text: str = "", crash: state.Crash | None = None) -> None:
        after_s = self._clock.monotonic_s() - self._began_s
        self._report(events.Event(kind=kind, service=service, text=text, after_s=after_s, crash=crash))

    def _state(self) -> state.ClusterState:
        return state.ClusterState(
            plan=self._plan, phase=self._phase, supervisor=processes.identify_self(), started_ns=self._started_ns,
            nats_url=self._where.nats_url, api_url=self._where.api_url,
            services=tuple(self._service_state(name) for name in topology.service_names(self._plan)),
            crashes=tuple(self._crashes), notes=tuple(self._notes), failure=self.failure,
            websocket_url=self._where.web.websocket_url, page_url=self._where.web.page_url,
        )  # fmt: skip

    def _service_state(self, name: str) -> state.ServiceState:
        child = self.children.get(name)
        return state.ServiceState(
            name=name,
            process=child.id if child is not None and child.process.returncode is None else None,
            ready=name in self._ready,
            restarts=self._restarts.get(name, 0),
            http_port=self._where.ports.get(name),
        )

"""What every adapter of Pod events does alike: it says what its states are."""

from collections.abc import Callable

from carico_agent.pod_events import pod_states
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks


class Adapter:
    """`carico_agent.ports.PodEvents` but for `run`, which has the states take in what happens."""

    def __init__(self, name: str, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._states = pod_states.PodStates()
        self._log = logs.get("pods", adapter=name)

    def current(self) -> pod_states.PodSet:
        """Return the Pods now; while their source is away, those of before."""
        return self._states.current(self._clock.monotonic_s())

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called in the loop's thread after each change of what runs."""
        self._states.on_change(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        """Call `witness` with each event of a Pod."""
        self._states.on_event(witness)

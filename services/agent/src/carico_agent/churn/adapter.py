"""What every adapter of Pod events does alike: it says what its ledger holds."""

from collections.abc import Callable

from carico_agent.churn import ledger
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks


class Adapter:
    """`carico_agent.ports.PodEvents` but for `run`, which has the ledger take in what happens."""

    def __init__(self, name: str, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._ledger = ledger.Ledger()
        self._log = logs.get("pods", adapter=name)

    def current(self) -> ledger.PodSet:
        """The Pods now; while their source is away, those of before."""
        return self._ledger.current(self._clock.monotonic_s())

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called in the loop's thread after each change of what runs."""
        self._ledger.on_change(callback)

    def on_event(self, witness: ledger.Witness) -> None:
        """`witness` is told of each event of a Pod."""
        self._ledger.on_event(witness)

"""The last quarter of an hour of each node, for its drill-down: a row every ten seconds, from what it advertises.

Every scheduler keeps it in memory, those on standby too, so that the next leader has it. It costs agents and the bus
nothing. A node has one row for each tick, empty where it did not advertise.
"""

import asyncio
import collections
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_core.domain import messages
from carico_core.runtime.process import clock as clocks
from carico_scheduler.answers import questions
from carico_scheduler.state import node_state

EVERY_S = 10.0
ROWS = 90
PRESSURE = "cpu.pressure"
# Half precision: Pods to 2,048 exactly, shares to .0005. Two kilobytes a node.
_TYPE = np.float16
_MOST = float(np.finfo(_TYPE).max)
# Nodes noted at a time; more would delay decisions.
_AT_ONCE = 500


class _Kept:
    """The rows of one node, written in a circle."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.rows: npt.NDArray[np.float16] = np.full((ROWS, len(columns)), np.nan, _TYPE)


class History:
    """The rows of every node in `heard`, the newest advertisements by node."""

    def __init__(self, heard: Mapping[str, node_state.Heard], *, lease_s: float, clock: clocks.Clock) -> None:
        self._heard = heard
        self._lease_s = lease_s
        self._clock = clock
        # When each row was noted: monotonic seconds, the newest last.
        self._ticks: collections.deque[float] = collections.deque(maxlen=ROWS)
        self._next = 0
        self._kept: dict[str, _Kept] = {}

    async def note_forever(self) -> None:
        """Note a row of every node each `EVERY_S`, until cancelled."""
        while True:
            await self.note()
            await asyncio.sleep(EVERY_S)

    async def note(self) -> None:
        """Note a row of every node, and forget those that are gone."""
        now_s, place = self._clock.monotonic_s(), self._next
        self._ticks.append(now_s)
        self._next = (place + 1) % ROWS
        for name in self._kept.keys() - self._heard.keys():
            del self._kept[name]
        for kept in self._kept.values():
            kept.rows[place] = np.nan
        for count, (name, heard) in enumerate(list(self._heard.items()), 1):
            if now_s - heard.sampled_s <= self._lease_s:
                self._write(name, heard.advertisement, place)
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def of(self, node: str) -> dict[str, Any]:
        """Return a node's rows as JSON types, oldest first; their age in s is the same on all clocks."""
        kept = self._kept.get(node)
        if kept is None:
            return {"columns": ["age_s"], "rows": []}
        now_s, count = self._clock.monotonic_s(), len(self._ticks)
        places = [(self._next - count + each) % ROWS for each in range(count)]
        rows = [
            [round(now_s - tick_s, 1), *(questions.finite(value) for value in kept.rows[place].tolist())]
            for place, tick_s in zip(places, self._ticks, strict=True)
            if not np.isnan(kept.rows[place, 0])
        ]
        return {"columns": ["age_s", *kept.columns], "rows": rows}

    def _write(self, name: str, said: messages.Advertisement, place: int) -> None:
        figures = _figures(said)
        columns = tuple(figures)
        kept = self._kept.get(name)
        if kept is None or kept.columns != columns:
            kept = self._kept[name] = _Kept(columns)
        kept.rows[place] = [min(max(value, -_MOST), _MOST) for value in figures.values()]


def _figures(said: messages.Advertisement) -> dict[str, float]:
    """Return what is kept of an advertisement, by column."""
    found = {"pods": float(said.pods), "capacity": said.capacity, "capacity_sd": said.capacity_sd, **said.usage}
    return found | ({PRESSURE: said.parts[PRESSURE]} if PRESSURE in said.parts else {})

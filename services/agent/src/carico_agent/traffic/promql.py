"""Traffic from a query to Prometheus, where a mesh or Cilium's Hubble measures it.

The setting has the whole address of an instant query, percent-encoded, with `$node` for the name of this node:

    promql:http://prometheus:9090/api/v1/query?query=sum by (source, destination) (...{node="$node"})

Each series of the result is a counter of bytes that go from the address in its label `source` to that in `destination`.
As with Prometheus' own `rate`, bytes count from the second answer that has the series; after an outage, too.
"""

import asyncio
import ipaddress
import math
import urllib.parse
from collections.abc import Mapping

import msgspec

from carico_agent.traffic import sockets
from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.kube import http_client
from carico_core.runtime.observe import logs

POLL_S = 10.0
_WITHIN_S = 5.0
# After more polls in a row without an answer, a minute at most, counters begin again: the bytes of a longer time would
# be in one report, as if they had been sent within its ten seconds.
_FAILED_MOST = 3
_LIMIT_BYTES = 4 << 20
_OK = 200
# A larger number of bytes is none: floats have no single ones above it (9 PB).
_BYTES_MOST = 2.0**53

_Pair = tuple[str, str]


class _Series(msgspec.Struct):
    metric: dict[str, str]
    # Time, and the number as text, which may be NaN or +Inf.
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data


_ANSWERS = msgspec.json.Decoder(_Answer)


class Promql:
    """Implements `carico_agent.ports.TrafficSource`."""

    def __init__(
        self, url: str, *, node: str, skipped: sockets.Skipped, log: logs.RateLimited, poll_s: float = POLL_S
    ) -> None:
        """Raise `EnvironmentUnfit` if the address is not one of a query."""
        try:
            parts = urllib.parse.urlsplit(url)
            is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port or an address of IPv6 that is none
            is_server = False
        queries = urllib.parse.parse_qs(parts.query).get("query", []) if is_server else []
        if len(queries) != 1:
            raise errors.EnvironmentUnfit(
                f"--traffic promql:{url}: expected the address of an instant query, such as "
                "http://prometheus:9090/api/v1/query?query=..."
            )
        self._path, self._params = parts.path, {"query": queries[0].replace("$node", node)}
        self._server = http_client.Server(
            f"{parts.scheme}://{parts.netloc}", tls=None, server_hostname=None, headers={},
            connect_timeout_s=_WITHIN_S, limit_bytes=_LIMIT_BYTES,
        )  # fmt: skip
        self._skipped = skipped
        self._log = log
        self._poll_s = poll_s
        self._last: dict[_Pair, float] | None = None

    async def run(self, found: sockets.Found) -> None:
        """Pass on the increase of each counter, once in a poll, until cancelled."""
        failed = 0
        try:
            while True:
                try:
                    async with asyncio.timeout(_WITHIN_S):
                        answer = await self._server.request(
                            "GET", self._path, params=self._params, headers={}, body=b""
                        )  # fmt: skip
                    if answer.status != _OK:
                        raise ValueError(f"status {answer.status}")
                    found(self.take(answer.body))
                    failed = 0
                except (OSError, TimeoutError, ValueError) as error:
                    failed += 1
                    if failed > _FAILED_MOST:
                        self._last = None
                    self._skipped("unreadable", 1)
                    self._log.warning(
                        "promql", "Prometheus does not answer the query for traffic", why=str(error)[:200]
                    )
                await asyncio.sleep(self._poll_s)
        finally:
            self._server.close()

    def take(self, body: bytes) -> list[pod_telemetry.PodFlow]:
        """Return the bytes since the last answer. Raises `ValueError` for an answer that is not one of a query."""
        try:
            answer = _ANSWERS.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"not an answer of Prometheus: {error}") from None
        now: dict[_Pair, float] = {}
        for series in answer.data.result:
            pair, total = _pair(series.metric), _number(series.value[1])
            if pair is None or total is None:
                self._skipped("not_finite" if pair is not None else "undecodable", 1)
            else:
                now[pair] = now.get(pair, 0.0) + total
        # A sum of finite numbers may be infinite, and a report holds integers of 64 bits.
        finite = {pair: total for pair, total in now.items() if total <= _BYTES_MOST}
        if len(finite) < len(now):
            self._skipped("not_finite", len(now) - len(finite))
        last, self._last = self._last, finite
        return [] if last is None else self._increases(last, finite)

    def _increases(self, last: Mapping[_Pair, float], now: Mapping[_Pair, float]) -> list[pod_telemetry.PodFlow]:
        flows = []
        for (source, destination), total in now.items():
            before = last.get((source, destination))
            if before is None:
                # New, or back after a gap with the bytes of its whole life.
                continue
            if total < before:
                self._skipped("decreased", 1)
            elif total > before:
                local, remote = (pod_telemetry.Endpoint(each, pod_telemetry.ANY_PORT) for each in (source, destination))
                flows.append(pod_telemetry.PodFlow(None, local, remote, int(total - before), 0))
        return flows


def _pair(labels: Mapping[str, str]) -> _Pair | None:
    try:
        source, destination = (str(ipaddress.ip_address(labels[name])) for name in ("source", "destination"))
    except (KeyError, ValueError):
        return None
    return source, destination


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0.0 else None

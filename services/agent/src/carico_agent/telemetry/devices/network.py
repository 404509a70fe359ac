"""The dimension "network": throughput relative to the speed of the link, in the busier direction.

Links are full duplex: sending does not slow down receiving. One interface is measured, that of the default route unless
another is named; the agent has to be in the network namespace of its node.
https://docs.kernel.org/networking/statistics.html, https://docs.kernel.org/ABI/testing/sysfs-class-net
"""

import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file
from carico_core.runtime.process import clock as clocks

BYTES_PER_MBIT = 1e6 / 8
# Eight counters of received data, bytes first, then eight of sent data.
_FIELDS, _RECEIVED, _SENT = 16, 0, 8
# RTF_UP of /proc/net/route; RTF_REJECT of /proc/net/ipv6_route.
_UP, _REJECT = 0x1, 0x200
_ANYWHERE_V4, _ANYWHERE_V6 = "0" * 8, "0" * 32


class Network:
    """max(d_received, d_sent) / (d_elapsed x the link's speed)."""

    def __init__(self, interface: str, *, full: float, proc: pathlib.Path, clock: clocks.Clock) -> None:
        """`full`: the link's bytes per second. Raises `Absent` if the interface does not exist."""
        self._name = interface.encode()
        self.full = full
        self._file = kernel_file.KernelFile(proc / "net" / "dev", size=16384)
        self._clock = clock
        self._last: tuple[int, int, float] | None = None
        if parse_dev(self._file.read_all(), self._name) is None:
            raise port.Absent(f"network interface {interface}", f"not in {self._file.path}")

    def read(self) -> float | None:
        """Return the share of the link's speed in use since the last read."""
        found = parse_dev(self._file.read_all(), self._name)
        if found is None:
            raise port.Broken(str(self._file.path), f"no interface {self._name.decode()}")
        now_s = self._clock.monotonic_s()
        last, self._last = self._last, (*found, now_s)
        if last is None:
            return None
        elapsed_s = now_s - last[2]
        shares = [kernel_file.ratio(last[way], found[way], elapsed_s * self.full) for way in (0, 1)]
        known = [share for share in shares if share is not None]
        return max(known) if len(known) == len(shares) else None


def open_network(
    proc: pathlib.Path, *, clock: clocks.Clock, interface: str, mbit_per_s: float | None, classes: pathlib.Path
) -> Network:
    """Return the dimension for the named interface, or the default route's; its speed is as given, or the kernel's.

    `classes`: /sys/class/net. Raises `Absent` with the setting that solves it.
    """
    name = interface or default_interface(proc)
    speed = read_speed(classes / name) if mbit_per_s is None else mbit_per_s
    if speed is None:
        raise port.Absent(
            f"speed of {name}",
            "the kernel does not know it; give --network-mbit-per-s (CARICO_AGENT_NETWORK_MBIT_PER_S)",
        )
    return Network(name, full=speed * BYTES_PER_MBIT, proc=proc, clock=clock)


def read_speed(folder: pathlib.Path) -> float | None:
    """Return the link's Mbit/s; None if the kernel does not know it (virtual interfaces, a link that is down)."""
    try:
        speed = int((folder / "speed").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return float(speed) if speed > 0 else None


def default_interface(proc: pathlib.Path) -> str:
    """Return the interface of the best default route, IPv4 before IPv6. Raises `Absent` if there is none."""
    for name, parse in (("route", parse_route), ("ipv6_route", parse_ipv6_route)):
        try:
            data = kernel_file.KernelFile(proc / "net" / name, size=16384).read_all()
        except port.Absent:
            continue
        found = parse(data.decode("ascii", errors="replace"))
        if found:
            return found
    raise port.Absent(
        "default route",
        f"none in {proc / 'net'}; name the interface: --network-interface (CARICO_AGENT_NETWORK_INTERFACE)",
    )


def parse_dev(data: bytes, name: bytes) -> tuple[int, int] | None:
    """Return (received, sent) bytes of one interface in /proc/net/dev; None if it is not listed.

    >>> parse_dev(b"Inter-|\\n face |\\n  eth0:7 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\\n", b"eth0")
    (7, 9)

    Raises `Broken`.
    """
    if not data.endswith(b"\n"):
        raise port.Broken("/proc/net/dev", data)
    for line in data.splitlines():
        found, colon, rest = line.partition(b":")
        if colon and found.strip() == name:
            words = rest.split()
            if len(words) < _FIELDS:
                raise port.Broken("/proc/net/dev", line)
            return (
                kernel_file.whole(words[_RECEIVED], what="/proc/net/dev"),
                kernel_file.whole(words[_SENT], what="/proc/net/dev"),
            )
    return None


def parse_route(text: str) -> str | None:
    """Return the interface of the best default route in /proc/net/route; None if there is none. Raises `Broken`."""
    routes = [words for line in text.splitlines() if len(words := line.split()) >= 8]
    usable = [
        (int(words[6]), words[0])
        for words in routes
        if words[1] == words[7] == _ANYWHERE_V4 and words[6].isdigit() and _hex(words[3]) & _UP
    ]
    return min(usable)[1] if usable else None


def parse_ipv6_route(text: str) -> str | None:
    """Return the same for /proc/net/ipv6_route, whose numbers are hexadecimal. Raises `Broken`."""
    routes = [words for line in text.splitlines() if len(words := line.split()) >= 10]
    usable = [
        (_hex(words[5]), words[9])
        for words in routes
        if words[0] == _ANYWHERE_V6 and words[1] == "00" and not _hex(words[8]) & _REJECT and words[9] != "lo"
    ]
    return min(usable)[1] if usable else None


def _hex(word: str) -> int:
    try:
        return int(word, 16)
    except ValueError:
        raise port.Broken("routes of /proc/net", word) from None

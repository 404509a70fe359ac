"""The name of a container, from the engine's DNS: the container itself knows only a random id."""

import contextlib
import pathlib
import random
import re
import socket
import struct
from collections.abc import Iterable

RESOLV_CONF = pathlib.Path("/etc/resolv.conf")
ANSWER_TIMEOUT_S = 2.0
# https://www.rfc-editor.org/rfc/rfc1035: header, question, answer.
_HEADER = struct.Struct("!6H")
_POINTER, _INTERNET, _RECURSION_DESIRED = 12, 1, 0x0100
_COMPRESSED = 0xC0
# carico-node-3.carico_default, or carico_node_3 as the first Compose wrote it.
_NUMBERED = re.compile(r"[a-z0-9][a-z0-9_.-]*?[-_](?P<service>[a-z0-9]+)[-_](?P<number>\d+)(\.|$)")


def address() -> str:
    """Return the container's address in its network. Raises `OSError`."""
    return socket.gethostbyname(socket.gethostname())


def node_name(own_address: str, *, rng: random.Random, resolv_conf: pathlib.Path = RESOLV_CONF) -> str:
    """Return `node-3` for the third container of the service `node`; `node-` plus the container's id without DNS."""
    with contextlib.suppress(OSError, ValueError):
        server = nameserver(resolv_conf.read_text(encoding="ascii", errors="replace").splitlines())
        found = numbered(ask(server, own_address, query_id=rng.randrange(1 << 16)))
        if found is not None:
            return found
    return f"node-{socket.gethostname().lower()}"


def numbered(container: str) -> str | None:
    """Return the service and number of a container's name; None where it has no number.

    >>> numbered("carico-node-3.carico_default"), numbered("my-project_node_12"), numbered("web.example")
    ('node-3', 'node-12', None)
    """
    found = _NUMBERED.match(container)
    return None if found is None else f"{found['service']}-{found['number']}"


def nameserver(lines: Iterable[str]) -> str:
    """Return the first name server of an /etc/resolv.conf. Raises `ValueError`.

    >>> nameserver(["search example", "nameserver 127.0.0.11"])
    '127.0.0.11'
    """
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            return words[1]
    raise ValueError("no name server in resolv.conf")


def ask(server: str, own_address: str, *, query_id: int, port: int = 53) -> str:
    """Return a DNS server's name for an address. Raises `OSError`, or `ValueError` where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(ANSWER_TIMEOUT_S)
        asking.connect((server, port))
        asking.send(question(own_address, query_id=query_id))
        return answer(asking.recv(4096), query_id=query_id)


def question(own_address: str, *, query_id: int) -> bytes:
    """Return the DNS message that asks for the name of an IPv4 address."""
    labels = [*reversed(own_address.split(".")), "in-addr", "arpa"]
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    header = _HEADER.pack(query_id, _RECURSION_DESIRED, 1, 0, 0, 0)
    return header + name + struct.pack("!2H", _POINTER, _INTERNET)


def answer(data: bytes, *, query_id: int) -> str:
    """Return the name in a DNS message that answers `question`. Raises `ValueError` where there is none."""
    try:
        got_id, _, questions, answers, _, _ = _HEADER.unpack_from(data)
        if got_id != query_id or answers == 0:
            raise ValueError("no name for this address")
        at = _HEADER.size
        for _ in range(questions):
            at = _name(data, at)[1] + 4
        at = _name(data, at)[1]
        kind, _, _, length = struct.unpack_from("!2HIH", data, at)
        if kind != _POINTER:
            raise ValueError(f"got an answer of type {kind}, expected PTR")
        return _name(data[: at + 10 + length], at + 10)[0]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("malformed DNS message") from error


def _name(data: bytes, at: int) -> tuple[str, int]:
    """Return the name at offset `at`, and the offset of its end."""
    labels: list[str] = []
    end: int | None = None
    # A name has 255 bytes at most; without this bound a pointer to an earlier offset would loop for ever.
    for _ in range(128):
        length = data[at]
        if length >= _COMPRESSED:
            end = at + 2 if end is None else end
            at = (length & ~_COMPRESSED) << 8 | data[at + 1]
        elif length == 0:
            return ".".join(labels), at + 1 if end is None else end
        else:
            labels.append(data[at + 1 : at + 1 + length].decode("ascii"))
            at += 1 + length
    raise ValueError("DNS name without an end")

"""What a container is called."""

import pathlib
import random
import socket
import struct
import threading

import pytest

from carico_local.contained import identity


def wire_name(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def reply(query: bytes, name: str, *, kind: int = 12) -> bytes:
    """What Docker's DNS answers: the question again, and an answer whose name points at it."""
    data = wire_name(name)
    head = query[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0)
    return head + query[12:] + struct.pack("!HHHIH", 0xC00C, kind, 1, 600, len(data)) + data


def test_the_question_is_for_the_address_backwards() -> None:
    asked = identity.question("172.18.0.5", query_id=7)
    assert asked[:2] == b"\0\7"
    assert wire_name("5.0.18.172.in-addr.arpa") in asked


@pytest.mark.parametrize("name", ["carico-node-3.carico_default", "a-b-node-12.x"])
def test_a_container_is_called_by_service_and_number(name: str) -> None:
    answered = identity.answer(reply(identity.question("10.0.0.9", query_id=5), name), query_id=5)
    assert answered == name
    assert identity.numbered(answered) == "-".join(name.split(".")[0].split("-")[-2:])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\5" + b"\0" * 10,
        reply(identity.question("10.0.0.9", query_id=6), "x.y"),
        reply(identity.question("10.0.0.9", query_id=5), "x.y", kind=1),
        reply(identity.question("10.0.0.9", query_id=5), "x.y")[:-3],
        # A name that points at itself.
        struct.pack("!6H", 5, 0, 0, 1, 0, 0) + b"\xc0\x0c",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"name|DNS|PTR"):
        identity.answer(data, query_id=5)


def test_pages_and_malformed_requests_over_a_socket(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10.0)

        def serve() -> None:
            query, client = server.recvfrom(512)
            server.sendto(reply(query, "demo-node-4.demo_default"), client)

        serving = threading.Thread(target=serve)
        serving.start()
        port = server.getsockname()[1]
        assert identity.ask("127.0.0.1", "10.1.2.3", query_id=99, port=port) == "demo-node-4.demo_default"
        serving.join()
    nowhere = identity.node_name("10.1.2.3", rng=random.Random(1), resolv_conf=tmp_path / "missing")
    assert nowhere == f"node-{socket.gethostname().lower()}"

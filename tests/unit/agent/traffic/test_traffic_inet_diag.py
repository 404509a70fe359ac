"""The kernel's messages about sockets: parsed as they are, and nothing but OSError for whatever bytes come."""

import errno
import struct

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_agent.traffic import inet_diag
from carico_core.domain import pod_telemetry
from tests.unit.agent.traffic import kernel_messages as kernel

ONE = kernel.tcp(7, ("10.0.0.1", 8080), ("10.0.0.2", 40_000), sent=123, received=456, inode=99, cgroup=4711)
SIX = kernel.tcp(8, ("fd00::1", 80), ("fd00::2", 40_001), sent=2**40, received=0, inode=98, cgroup=4712)
LISTENING = kernel.tcp(9, ("0.0.0.0", 8080), listening=True, inode=97, cgroup=4711)


def test_a_dump_is_parsed_to_its_end() -> None:
    parse = inet_diag.Parser().parse
    data = b"".join(kernel.message(each) for each in (ONE, SIX, LISTENING, ONE))
    assert parse(data) == ([ONE, SIX, LISTENING, ONE], False)
    assert parse(kernel.message(ONE) + kernel.done() + kernel.message(ONE)) == ([ONE], True)


def test_messages_of_one_length_may_have_different_layouts() -> None:
    parse = inet_diag.Parser().parse
    one = kernel.message(ONE)
    # In place of tcp_info, the last 240 bytes, an attribute that nothing here reads.
    other = kernel.netlink(20, one[16:-240] + kernel.attribute(99, bytes(236)))
    assert len(other) == len(one)
    assert [each.sent_bytes for each in parse(one + other + one).sockets] == [123, 0, 123]


@pytest.mark.parametrize("padding", [0, 4, 60])
def test_events_and_other_kernels_have_other_attributes(padding: int) -> None:
    parse = inet_diag.Parser().parse
    for _ in range(2):
        (found,) = parse(kernel.message(ONE, with_cgroup=False, padding=padding)).sockets
        assert found == ONE._replace(cgroup=0)


def test_endpoints_are_text_and_ipv4_in_ipv6_is_ipv4() -> None:
    assert (ONE.local, ONE.remote) == (("10.0.0.1", 8080), ("10.0.0.2", 40_000))
    assert SIX.local == pod_telemetry.Endpoint("fd00::1", 80)
    mapped = kernel.tcp(1, ("::ffff:10.0.0.1", 80), ("::ffff:10.0.0.2", 1))
    assert (mapped.local.address, mapped.remote.address) == ("10.0.0.1", "10.0.0.2")


def test_a_refusal_of_the_kernel_is_an_error_with_its_number() -> None:
    with pytest.raises(OSError, match="does not list") as caught:
        inet_diag.Parser().parse(kernel.netlink(2, struct.pack("=i", -errno.ENOENT) + bytes(16)))
    assert caught.value.errno == errno.ENOENT
    assert inet_diag.Parser().parse(kernel.netlink(2, bytes(20))) == ([], False), "an acknowledgement"


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=300, deadline=None)
def test_whatever_bytes_come_are_parsed_or_refused(data: st.DataObject) -> None:
    whole = bytearray(kernel.message(ONE) + kernel.message(SIX))
    for _ in range(data.draw(st.integers(0, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    parser = inet_diag.Parser()
    try:
        for each in parser.parse(bytes(whole[: data.draw(st.integers(0, len(whole)))])).sockets:
            assert each.local.port >= 0
        parser.parse(bytes(whole))
    except OSError as error:
        assert error.errno  # noqa: PT017

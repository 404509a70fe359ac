"""Loads and traffic of Pods: what is written is read back, bounds are kept, and what exceeds a payload is left out."""

import dataclasses
import json

import hypothesis
import pytest

from carico_core.domain import errors, pod_telemetry
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from carico_core.wire.messages import pod_telemetry as encoding
from tests.fixtures.golden import records
from tests.unit.wire import strategies

QUICKLY = hypothesis.settings(max_examples=60, deadline=None)
PODS, TRAFFIC = subjects.pods(records.NODE), subjects.traffic(records.NODE)


@QUICKLY
@hypothesis.given(strategies.POD_LOADS)
def test_loads(record: pod_telemetry.PodLoads) -> None:
    assert wire.decode_loads(wire.encode_loads(record), subject=subjects.pods(record.node)) == record


@QUICKLY
@hypothesis.given(strategies.POD_TRAFFIC)
def test_traffic(record: pod_telemetry.PodTraffic) -> None:
    found = wire.decode_traffic(wire.encode_traffic(record), subject=subjects.traffic(record.node))
    assert sorted(found.flows, key=str) == sorted(record.flows, key=str)
    assert dataclasses.replace(found, flows=()) == dataclasses.replace(record, flows=())


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"[0,0.75,0.25,11534336]", b"[2,0.75,0.25,11534336]"), (b"[0,0.75,", b"[0,-0.75,"), (b"[0,0.75,", b"[0,NaN,"),
        (b"[0,0.75,", b"[0,null,"), (b",0.25,11534336]", b"]"), (b'"Job/default/pi"', b'"\\u0007"'),
        (b"11534336]", b"1e300]"), (b"[0,0.75,", b"[true,0.75,"),
    ],
)  # fmt: skip
def test_loads_outside_of_their_bounds_are_refused(good: bytes, bad: bytes) -> None:
    payload = wire.encode_loads(records.LOADS)
    assert good in payload
    with pytest.raises(errors.MessageError):
        wire.decode_loads(payload.replace(good, bad), subject=PODS)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"[0,", b"[1,"), (b"[0,", b"[-1,"), (b"8080", b"65536"), (b'"10.244.1.7"', b'"pod-1"'), (b'"fd00::7"', b'""'),
        (b"1000000,5000]", b"-1,5000]"), (b"1000000,5000]", b"1000000]"), (b"10.125", b"-1"), (b"10.125", b"1e999"),
        (b"1000000,5000]", b"1000000.5,5000]"), (b"0123456789abcdef", b"eth0"), (b"fd00::9", b"f" * 46),
    ],
)  # fmt: skip
def test_traffic_outside_of_its_bounds_is_refused(good: bytes, bad: bytes) -> None:
    payload = wire.encode_traffic(records.TRAFFIC)
    assert good in payload
    with pytest.raises(errors.MessageError):
        wire.decode_traffic(payload.replace(good, bad), subject=TRAFFIC)


def test_pods_with_the_smallest_load_are_left_out_of_a_payload() -> None:
    loads = {
        f"{number:036d}": pod_telemetry.PodLoad(f"ReplicaSet/default/{number:040d}", number / 1000.0, 0.0, 1e10)
        for number in range(2000)
    }
    payload = wire.encode_loads(dataclasses.replace(records.LOADS, loads=loads, left_out=0))
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_loads(payload, subject=PODS)
    assert len(found.loads) + found.left_out == 2000
    assert len(found.loads) >= 400
    assert min(found.loads) == f"{2000 - len(found.loads):036d}"


def test_a_full_node_of_250_pods_fits() -> None:
    loads = {
        f"{number:036d}": pod_telemetry.PodLoad(f"ReplicaSet/default/{number:030d}", 0.125, 0.125, 1e9)
        for number in range(250)
    }
    sent = dataclasses.replace(records.LOADS, loads=loads, left_out=0)
    assert wire.decode_loads(wire.encode_loads(sent), subject=PODS) == sent


def test_the_smallest_flows_are_left_out_of_a_payload_and_their_bytes_counted() -> None:
    flows = tuple(
        pod_telemetry.PodFlow(
            f"{number % 2000:036d}", pod_telemetry.Endpoint("10.0.0.1", 80), pod_telemetry.Endpoint("10.0.0.2", 0),
            number, 1,
        )
        for number in range(3000)
    )  # fmt: skip
    payload = wire.encode_traffic(dataclasses.replace(records.TRAFFIC, flows=flows, left_out_bytes=7))
    assert len(payload) <= codec.PAYLOAD_MAX_BYTES
    found = wire.decode_traffic(payload, subject=TRAFFIC)
    assert 400 <= len(found.flows) <= encoding.FLOWS_MAX
    assert found.flows[0].sent_bytes == 2999
    reported = sum(flow.sent_bytes + flow.received_bytes for flow in found.flows)
    assert reported + found.left_out_bytes == sum(range(3000)) + 3000 + 7


def test_a_place_in_an_empty_list_is_refused() -> None:
    tree = json.loads(wire.encode_traffic(records.TRAFFIC))
    with pytest.raises(errors.MessageError, match="place 0"):
        wire.decode_traffic(json.dumps({**tree, "pods": []}).encode(), subject=TRAFFIC)

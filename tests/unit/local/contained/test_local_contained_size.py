"""How large a container is, and what is too small."""

import dataclasses
import pathlib

import pytest

from carico_core.domain import errors
from carico_local.contained import size

MIB = 2**20
ROOMY = size.Size(real_cores=0.5, memory_bytes=1024 * MIB, free_bytes=4096 * MIB, without="")


def test_without_limits_it_is_the_machine(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    (tmp_path / "meminfo").write_text("MemTotal: 2048 kB\nMemFree: 100 kB\nMemAvailable: 1024 kB\n")
    found = size.read(tmp_path)
    assert (found.memory_bytes, found.free_bytes) == (2 * MIB, MIB)
    assert found.real_cores >= 1.0
    assert found.without


def test_what_has_room_is_no_error() -> None:
    size.check(ROOMY)


@pytest.mark.parametrize(
    ("little", "said"),
    [
        (
            dataclasses.replace(ROOMY, memory_bytes=64 * MIB),
            "got a container of 64 MiB, expected 192 .*: raise its limit .CARICO_COMPOSE_NODE_MEMORY",
        ),
        (
            dataclasses.replace(ROOMY, free_bytes=64 * MIB),
            "got a machine with free memory of 64 MiB, expected 192 .*: end other programs, or start fewer",
        ),
    ],
)
def test_too_little_memory_is_one_line(little: size.Size, said: str) -> None:
    with pytest.raises(errors.EnvironmentUnfit, match=said) as raised:
        size.check(little)
    assert "\n" not in str(raised.value)

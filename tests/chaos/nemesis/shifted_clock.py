"""A service with a wall clock that its test sets: Linux cannot move that of a single process.

`python shifted_clock.py FILE MODULE ARGUMENTS...` is `python -m MODULE ARGUMENTS...` with the nanoseconds in FILE added
to each wall time. Services read time from `carico_core.runtime.process.clock` alone, of which ruff makes sure.
Monotonic time, by which terms and leases are measured, jumps on no machine.
"""

import mmap
import pathlib
import runpy
import struct
import sys
import time
from collections.abc import Sequence

_FORMAT = struct.Struct("=q")


class Offset:
    """How far a clock is ahead, in a file that the service has mapped."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        path.write_bytes(_FORMAT.pack(0))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), _FORMAT.size)

    def add(self, seconds: float) -> None:
        """Move the clock; jumps at the same time add up."""
        (before_ns,) = _FORMAT.unpack(self._bytes)
        self._bytes[:] = _FORMAT.pack(before_ns + round(seconds * 1e9))


def command(argv: Sequence[str], offset: Offset) -> list[str]:
    """Return the command line of `python -m MODULE ...` by whose clock it is `offset` later."""
    python, flag, *module = argv
    assert flag == "-m", "a Python module"
    return [python, __file__, str(offset.path), *module]


def main() -> None:
    """Run the module that the command line names, with the clock of the file that it names."""
    from carico_core.runtime.process import clock

    _, path, module, *arguments = sys.argv
    # This folder is not where the service finds its modules.
    sys.path.pop(0)
    with pathlib.Path(path).open("rb") as file:
        shared = mmap.mmap(file.fileno(), _FORMAT.size, prot=mmap.PROT_READ)

    def wall_ns(_: clock.SystemClock) -> int:
        return time.time_ns() + int(_FORMAT.unpack(shared)[0])

    type.__setattr__(clock.SystemClock, "wall_ns", wall_ns)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

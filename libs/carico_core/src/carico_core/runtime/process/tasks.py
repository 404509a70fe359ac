"""How a service runs: start, event loop, signals, exit codes, tasks that must not end, and paced requests."""

import asyncio
import contextlib
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use, settings

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USER_ERROR = 2


class TaskEnded(errors.CaricoError):
    """A task that should run for ever has returned."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"task {name} ended, expected it to run for ever: restart the service")


class Stop:
    """A request to end that tasks can wait for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Ask the service to end."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """True once the service was asked to end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the service is asked to end."""
        await self._event.wait()

    async def sleep(self, seconds: float) -> bool:
        """Sleep; True where the request to end cut it short."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self._event.is_set()


Main = Callable[[Stop], Awaitable[None]]


class Logged(Protocol):
    """What the settings of every service contain."""

    @property
    def log(self) -> settings.LogSettings:
        """Settings of its logs."""


_Settings = TypeVar("_Settings", bound=Logged)
_Result = TypeVar("_Result")
MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def fast_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop."""
    # Only for those who use it: it takes 2.6 MB.
    import uvloop

    return uvloop.new_event_loop()


def run_service(
    kind: type[_Settings], work: Callable[[_Settings, Stop], Awaitable[None]], *,
    prefix: str, program: str, make_loop: MakeLoop = fast_loop,
) -> int:  # fmt: skip
    """Load a service's settings, set up its logs, run `work`, and return the exit code as `run` does."""
    try:
        chosen = settings.load(kind, prefix=prefix, program=program)
    except errors.SettingsError as error:
        return report(error, program=program)
    logs.setup(service=program, json=chosen.log.json, level=chosen.log.level)
    return run(lambda stop: work(chosen, stop), program=program, make_loop=make_loop)


def run(main: Main, *, program: str = "carico", make_loop: MakeLoop = fast_loop) -> int:
    """Run `main` and return its exit code: 0 ended, 1 failed, 2 user error (one line on stderr says what to fix).

    SIGTERM and SIGINT set the Stop; a second signal cancels `main`.
    """
    memory_use.skip_last_collection()
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(_supervise(main))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return EXIT_FAILED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else EXIT_FAILED
    except BaseException as error:
        return report(error, program=program)
    return EXIT_OK


def report(error: BaseException, *, program: str) -> int:
    """Report an error on stderr and return its exit code; errors that are raised on purpose take one line."""
    found = list(leaves(error))
    user_error = next((leaf for leaf in found if isinstance(leaf, errors.UserError)), None)
    if user_error is not None:
        print(f"{program}: {user_error}", file=sys.stderr)
        return EXIT_USER_ERROR
    if all(isinstance(leaf, errors.CaricoError) for leaf in found):
        for leaf in found:
            print(f"{program}: {leaf}", file=sys.stderr)
        return EXIT_FAILED
    traceback.print_exception(error, file=sys.stderr)
    return EXIT_FAILED


async def forever(name: str, work: Awaitable[object]) -> None:
    """Run `work` for ever. Raises `TaskEnded` where it returns, and what it raises with the task's name as a note."""
    try:
        await work
    except Exception as error:
        error.add_note(f"in task {name}")
        raise
    raise TaskEnded(name)


async def unless(stop: Stop, work: Awaitable[_Result]) -> _Result | None:
    """Return the result of `work`, or None if `stop` comes first, which cancels it."""
    async with _running(work) as working, _running(stop.wait()) as stopping:
        both: list[asyncio.Future[Any]] = [working, stopping]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None


async def apart(work: Awaitable[_Result]) -> _Result:
    """Return the result of `work`, which runs in a task of its own: for who goes on after what it raises.

    Before Python 3.13, a TaskGroup raises only the errors of its children where one failed as its task was cancelled.
    Who catches those in the same task, and goes on, has lost the cancellation, and never ends.
    """
    async with _running(work) as working:
        await asyncio.wait([working])
        return working.result()


@contextlib.asynccontextmanager
async def _running(work: Awaitable[_Result]) -> "AsyncIterator[asyncio.Future[_Result]]":
    """Run `work` in a task of its own, which ends with the block, also where this task is cancelled."""
    working = asyncio.ensure_future(work)
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def until(stop: Stop, **works: Awaitable[object]) -> None:
    """Run all tasks (named by their keywords) until `stop` is set; then cancel them and wait for their end.

    A task that returns or raises ends them all: its error is raised in an ExceptionGroup.
    """
    async with asyncio.TaskGroup() as group:
        children = [group.create_task(forever(name, work), name=name) for name, work in works.items()]
        waiter = group.create_task(stop.wait(), name="stop")
        await waiter
        for child in children:
            child.cancel()


async def _supervise(main: Main) -> None:
    stop = Stop()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if stop.is_set:
            task.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await main(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, or those of a group and of the groups in it."""
    if isinstance(error, BaseExceptionGroup):
        for child in error.exceptions:
            yield from leaves(child)
    else:
        yield error


class OneAtATime:
    """Does one piece of work at a time, and rests after each, for `rest` times as long as it took.

    A client that asks without end gets a share of 1 / (1 + rest) of the process.
    """

    def __init__(self, *, rest: float) -> None:
        self._rest = rest
        self._turn = asyncio.Lock()
        self._rests_until_s = float("-inf")

    async def take(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Do the work when its turn comes."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._rests_until_s - loop.time()))
            began_s = loop.time()
            try:
                return await work()
            finally:
                self._rests_until_s = loop.time() + self._rest * (loop.time() - began_s)


class Pace:
    """Limits requests to a rate: each takes the next slot and waits for it."""

    def __init__(self, rate_per_s: float, *, clock: clocks.Clock) -> None:
        """`rate_per_s` 0: no limit."""
        self._period_s = 1.0 / rate_per_s if rate_per_s > 0 else 0.0
        self._clock = clock
        self._next_s = float("-inf")

    async def wait(self) -> None:
        """Wait for the next slot."""
        if not self._period_s:
            return
        now_s = self._clock.monotonic_s()
        slot_s = max(now_s, self._next_s)
        self._next_s = slot_s + self._period_s
        if slot_s > now_s:
            await asyncio.sleep(slot_s - now_s)

"""Runs in several processes, which end with their parent, however it ends, and at once when it stops.

This is not `multiprocessing.Pool`, which waits forever if a worker is killed for memory and prints the traceback of
every worker at Ctrl-C. Workers are spawned, not forked: a fork copies the locks of the parent's threads.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from multiprocessing import connection, process, resource_tracker

from carico_core.domain import errors
from carico_twin.evaluate import runs


class WorkerLost(errors.CaricoError):
    """A worker process ended in the middle of a run."""

    def __init__(self, *, exitcode: int | None, task: runs.Task) -> None:
        self.exitcode = exitcode
        super().__init__(
            f"a worker process ended with {exitcode} in {task.plan.name} under {task.contender.name}, seed {task.seed} "
            f"(-9: most likely out of memory): use fewer processes (--jobs)"
        )


class _Worker:
    """One worker process and the pipe to it."""

    def __init__(self, context: multiprocessing.context.SpawnContext) -> None:
        self.pipe, other = context.Pipe()
        self.process: process.BaseProcess = context.Process(target=_serve, args=(other,), daemon=True)
        self.task: runs.Task | None = None
        self.process.start()
        other.close()

    def give(self, task: runs.Task) -> None:
        self.task = task
        self.pipe.send(task)

    def take(self) -> runs.RunResult:
        assert self.task is not None
        try:
            found: runs.RunResult | BaseException = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise WorkerLost(exitcode=self.process.exitcode, task=self.task) from None
        if isinstance(found, BaseException):
            raise found
        self.task = None
        return found


def run_all(tasks: Sequence[runs.Task], *, jobs: int) -> Generator[runs.RunResult, None, None]:
    """Yield each task's result as it is ready, longest runs started first; with one job, run in this process."""
    ordered = sorted(tasks, key=lambda task: -task.effort)
    if jobs <= 1 or len(ordered) <= 1:
        yield from map(runs.run, ordered)
        return
    workers: list[_Worker] = []
    try:
        _start(min(jobs, len(ordered)), workers)
        yield from _share(ordered, workers)
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.pipe.close()


def _start(count: int, workers: list[_Worker]) -> None:
    """Start `count` workers and add them to the list."""
    # Spawning starts a resource tracker, which unblocks SIGINT; starting it beforehand avoids that.
    resource_tracker.ensure_running()
    context = multiprocessing.get_context("spawn")
    with _interrupted_later():
        workers.extend(_Worker(context) for _ in range(count))


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay Ctrl-C: a half-started process would neither run nor end.

    Ctrl-C goes to every process of a terminal. Workers start with it blocked, since their parent ends them. Blocking
    alone does not delay it here: another thread (numpy's) may receive the signal, so the handler is deferred too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _share(tasks: list[runs.Task], workers: list[_Worker]) -> Generator[runs.RunResult, None, None]:
    waiting = iter(tasks)
    for worker, task in zip(workers, waiting, strict=False):
        worker.give(task)
    busy = {worker.pipe: worker for worker in workers if worker.task is not None}
    while busy:
        for ready in connection.wait(list(busy)):
            assert isinstance(ready, connection.Connection)
            worker = busy[ready]
            outcome = worker.take()
            following = next(waiting, None)
            if following is None:
                del busy[ready]
            else:
                worker.give(following)
            yield outcome


def _serve(pipe: "connection.Connection") -> None:
    """Run tasks from the pipe until its other end is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = pipe.recv()
            try:
                found: runs.RunResult | BaseException = runs.run(task)
            except Exception as error:
                # The parent raises it again, and can report it.
                found = error
            pipe.send(found)


def _end_with_parent() -> None:
    """End this process, even in the middle of a run, when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

"""Exit codes, signals, and tasks that must not end."""

import asyncio
import os
import signal

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import tasks


def test_a_main_that_ends_is_zero() -> None:
    async def main(stop: tasks.Stop) -> None:
        assert not stop.is_set

    assert tasks.run(main) == 0


def test_a_service_runs_on_uvloop_unless_it_chooses_another_loop() -> None:
    loops: list[str] = []

    async def main(_: tasks.Stop) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    assert tasks.run(main) == 0
    assert tasks.run(main, make_loop=asyncio.new_event_loop) == 0
    assert loops == ["uvloop", "asyncio"]


def test_a_users_mistake_is_one_line_and_two(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(stop: tasks.Stop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise errors.SettingsError("--x: got 1, expected 2")

    assert tasks.run(main, program="carico-agent") == 2
    assert capsys.readouterr().err == "carico-agent: --x: got 1, expected 2\n"


def test_an_error_raised_on_purpose_is_one_line_and_one(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(stop: tasks.Stop) -> None:
        raise errors.BusUnavailable("the bus closed for good")

    assert tasks.run(main, program="carico-agent") == 1
    assert capsys.readouterr().err == "carico-agent: the bus closed for good\n"


def test_an_unexpected_error_shows_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(stop: tasks.Stop) -> None:
        raise RuntimeError("bug")

    assert tasks.run(main) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_end(number: signal.Signals) -> None:
    ended: list[bool] = []

    async def main(stop: tasks.Stop) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        ended.append(True)

    assert tasks.run(main) == 0
    assert ended == [True]


def test_a_second_signal_does_not_wait() -> None:
    async def main(stop: tasks.Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    assert tasks.run(main) == 1


async def test_a_task_that_returns_is_an_error_with_its_name() -> None:
    with pytest.raises(tasks.TaskEnded, match="task sampler ended"):
        await tasks.forever("sampler", asyncio.sleep(0))


async def test_until_cancels_its_tasks_when_asked_to_end() -> None:
    stop = tasks.Stop()
    cleaned: list[str] = []

    async def work() -> None:
        try:
            stop.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append("work")

    await tasks.until(stop, work=work())
    assert cleaned == ["work"]


async def test_until_ends_all_where_one_fails() -> None:
    async def bad() -> None:
        raise RuntimeError("bad")

    with pytest.raises(ExceptionGroup) as caught:
        await tasks.until(tasks.Stop(), good=asyncio.Event().wait(), bad=bad())
    assert caught.value.exceptions[0].__notes__ == ["in task bad"]


@pytest.mark.parametrize("is_in_the_body", [True, False])
async def test_who_goes_on_after_what_a_group_raises_is_cancelled_although_a_child_fails_at_the_same_time(
    *, is_in_the_body: bool
) -> None:
    ended: list[str] = []

    async def follow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            if is_in_the_body:
                await asyncio.Event().wait()

    async def go_on() -> None:
        while len(ended) < 5:
            try:
                await tasks.apart(follow())
            except* errors.BusError:
                ended.append("failed")

    async def fail() -> None:
        await asyncio.sleep(0)
        if ended:
            going.cancel()
        raise errors.BusError("away")

    going = asyncio.ensure_future(go_on())
    with pytest.raises(asyncio.CancelledError):
        await going
    assert ended == ["failed"]


async def test_stop_sleep_says_which_came_first() -> None:
    stop = tasks.Stop()
    assert await stop.sleep(0.001) is False
    stop.set()
    assert await stop.sleep(60) is True


async def test_unless_returns_the_result_or_cancels_the_work_when_asked_to_end() -> None:
    stop = tasks.Stop()

    async def answer() -> int:
        return 7

    assert await tasks.unless(stop, answer()) == 7
    never = asyncio.ensure_future(asyncio.Event().wait())
    stop.set()
    assert await tasks.unless(stop, never) is None
    assert never.cancelled()


async def test_unless_leaves_no_work_behind_if_it_is_cancelled_itself() -> None:
    never = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(tasks.unless(tasks.Stop(), never))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled() and never.cancelled()

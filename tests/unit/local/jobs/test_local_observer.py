"""What is seen of a job's Pods."""

from typing import Any

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job_labels, observer


class Api:
    """Yield these, then nothing more."""

    def __init__(self, *events: Any) -> None:
        self._events = events

    async def mirror(self, path: str, *, params: Any = None) -> Any:
        """The events."""
        for event in self._events:
            yield event


def pod(phase: str, *, deleted: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "uid": "u", "labels": {job_labels.JOB_LABEL: "j"}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


async def seen(*events: tuple[Any, dict[str, Any]]) -> str:
    """In which phase the Pod was when its deletion was asked for."""
    found = observer.Observer(clock=clocks.FakeClock())
    api = Api(*(api_client.Changed(type=kind, object=each) for kind, each in events))
    await found.follow_pods(api)
    (told,) = found.of_job("j")
    return told.deleted_while


async def test_a_deletion_before_the_end_is_distinguished_from_one_after_it() -> None:
    ended = ("MODIFIED", pod("Failed", deleted=True)), ("DELETED", pod("Failed", deleted=True))
    assert await seen(("ADDED", pod("Running")), ("MODIFIED", pod("Running", deleted=True)), *ended) == "Running"
    assert await seen(("ADDED", pod("Pending")), *ended) == "Pending"
    assert await seen(("ADDED", pod("Running")), ("MODIFIED", pod("Failed")), *ended) == ""


async def test_a_program_that_is_not_ours_has_its_nodes_times_if_it_succeeded() -> None:
    times_s: dict[str, float | None] = {}
    for phase in ("Succeeded", "Failed"):
        ended = pod(phase)
        state = {"startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:00:10Z", "message": "done"}
        ended["status"]["containerStatuses"] = [{"state": {"terminated": state}}]
        found = observer.Observer(clock=clocks.FakeClock())
        await found.follow_pods(Api(api_client.Changed(type="MODIFIED", object=ended)))
        (told,) = found.of_job("j")
        times_s[phase] = told.time_s
    assert times_s == {"Succeeded": 7.0, "Failed": None}

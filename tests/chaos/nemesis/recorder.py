"""Records what the API's watch and the bus show while a run lasts."""

import time
from collections.abc import Mapping
from typing import Any

from carico_core.runtime.kube import api_client
from carico_core.wire import messages as wire
from tests.chaos.nemesis import history, nemesis_site


class Recorder:
    """Keeps what the API's watch and the bus show."""

    def __init__(self, site: nemesis_site.Site) -> None:
        self._site = site
        self._into = site.history
        self._present: set[str] = set()
        self._ended: set[str] = set()

    def all_ended(self) -> bool:
        """True once every Pod that we did not delete has ended."""
        return all(pod.deleted_s is not None or pod.uid in self._ended for pod in self._into.pods)

    def on_advertisement(self, subject: str, payload: bytes) -> None:
        said = wire.decode_advertisement(payload, subject=subject)
        self._into.advertised.append(history.Advertised(at_s=time.time(), said=said))

    def on_decision(self, subject: str, payload: bytes) -> None:
        self._into.decisions.append(wire.decode_decision(payload, subject=subject))

    async def follow_pods(self) -> None:
        """Record each state of each Pod, until cancelled."""
        async for event in self._site.client.mirror("/api/v1/pods"):
            if isinstance(event, api_client.Listed):
                listed = {pod["metadata"]["uid"]: pod for pod in event.objects}
                for uid in self._present - listed.keys():
                    self._take({"metadata": {"uid": uid}, "spec": {}, "status": {}}, is_gone=True)
                for pod in listed.values():
                    self._take(pod, is_gone=False)
            elif isinstance(event, api_client.Changed):
                self._take(event.object, is_gone=event.type == "DELETED")

    def _take(self, pod: Mapping[str, Any], *, is_gone: bool) -> None:
        uid, status = pod["metadata"]["uid"], pod["status"]
        phase = status.get("phase", "")
        (self._present.discard if is_gone else self._present.add)(uid)
        if is_gone or phase in ("Succeeded", "Failed"):
            self._ended.add(uid)
        self._into.shown.append(
            history.Shown(
                uid=uid,
                at_s=time.time(),
                node=pod["spec"].get("nodeName"),
                phase=phase,
                is_gone=is_gone,
                reason=f"{status.get('reason', '')} {status.get('message', '')} {_ends(status)}".strip(),
            )
        )


def _ends(status: Mapping[str, Any]) -> str:
    """Reason and exit code of each container that has ended."""
    ended = [each["state"].get("terminated") for each in status.get("containerStatuses", ())]
    return ", ".join(f"{each.get('reason')} {each['exitCode']}" for each in ended if each)

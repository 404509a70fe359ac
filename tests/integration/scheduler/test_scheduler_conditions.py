"""PodScheduled on the embedded API: false with the words of explain while a Pod cannot be placed, true once it is."""

import pathlib
from typing import Any

from tests.tools import waiting
from tests.tools.sites import scheduler_site

FLAGS = ("--event-after-s", "0.2")


async def test_a_pod_that_no_node_takes_is_unschedulable_until_it_is_bound(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path) as site:
        site.start_scheduler(*FLAGS)
        await site.create_pods(3)
        # The example in the words is the best of the nodes that refuse, which Pods that come and go change.
        await site.until_succeeded(3)
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "picky"},
            "spec": {
                "schedulerName": "carico", "nodeSelector": {"disk": "ssd"}, "containers": [{"name": "m", "image": "pi"}]
            },
        }  # fmt: skip
        await site.insist("POST", scheduler_site.PODS_PATH, body)

        async def scheduled() -> dict[str, Any]:
            found = await site.client.request("GET", f"{scheduler_site.PODS_PATH}/picky")
            conditions = found["status"].get("conditions", [])
            return next((each for each in conditions if each["type"] == "PodScheduled"), {})

        refused = await waiting.answered(scheduled)
        assert (refused["status"], refused["reason"]) == ("False", "Unschedulable")
        said = await site.ask("pod.explain", b'{"pod": "picky"}')
        assert refused["message"] == said["why"]
        assert said["why"].startswith("0/3 nodes fit: 3 without the required labels")
        await site.client.request(
            "PATCH", "/api/v1/nodes/node-2", body={"metadata": {"labels": {"disk": "ssd"}}},
            content_type="application/merge-patch+json",
        )  # fmt: skip
        await waiting.answered(scheduled, lambda found: found["status"] == "True")
        await site.until_succeeded(4)
        assert site.stop_scheduler() == 0

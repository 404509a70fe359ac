"""The Kubernetes descheduler, run once: LowNodeUtilization by requested CPU, as in section 5.3.3 of the paper.

https://github.com/kubernetes-sigs/descheduler#lownodeutilization
"""

import asyncio
import json
import pathlib
import tempfile
from typing import Any

from carico_core.domain import errors
from carico_local.applications import catalog, manifests
from carico_local.cluster import processes
from carico_local.jobs import job_labels

# "we define the CPU overutilization threshold at 25%", above all nodes but one (table 11).
OVER_PERCENT = 25
UNDER_PERCENT = 20
RUN_MOST_S = 120.0


def policy() -> dict[str, Any]:
    """Return the policy. Pods that stay are exempt, as for all contenders."""
    stays = sorted(each.name for each in catalog.SERVICES.values() if each.stays)
    selector = {
        "matchExpressions": [
            {"key": manifests.APPLICATION_LABEL, "operator": "Exists"},
            {"key": job_labels.APP_LABEL, "operator": "NotIn", "values": stays},
        ]
    }
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "compare",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"labelSelector": selector}},
                    {
                        "name": "LowNodeUtilization",
                        "args": {"thresholds": {"cpu": UNDER_PERCENT}, "targetThresholds": {"cpu": OVER_PERCENT}},
                    },
                ],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
    }


async def run(program: pathlib.Path, kubeconfig: pathlib.Path) -> None:
    """Run the descheduler once. Raises `EnvironmentUnfit` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "policy.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(policy()), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            str(program), "--kubeconfig", str(kubeconfig), "--policy-config-file", str(file),
            "--descheduling-interval", "0", "--secure-port", "0",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            preexec_fn=processes.end_with_parent(),
        )  # fmt: skip
        try:
            async with asyncio.timeout(RUN_MOST_S):
                _, said = await process.communicate()
        except TimeoutError:
            raise errors.EnvironmentUnfit(f"the descheduler has not ended after {RUN_MOST_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise errors.EnvironmentUnfit(f"the descheduler ended with code {process.returncode}: {last[0][:400]}")

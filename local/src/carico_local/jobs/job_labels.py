"""Labels of a job's Pods, and which job a Pod belongs to.

A module of its own: who only reads Pods needs nothing else of jobs.
"""

from collections.abc import Mapping
from typing import Any

JOB_LABEL = "carico.dev/job"
WORKLOAD_LABEL = "carico.dev/workload"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
APP_LABEL = "app.kubernetes.io/name"
# How long a Pod works, for a node that is only played (kwok).
WORK_ANNOTATION = "carico.dev/work"
# Shown in place of a job's name for Pods without a job, such as those created with kubectl.
OTHERS = "(others)"
# Of jobs of `carico submit`, and of Kubernetes:
# https://kubernetes.io/docs/reference/labels-annotations-taints/#batch-kubernetes-io-job-name
JOB_LABELS = (JOB_LABEL, "batch.kubernetes.io/job-name")


def job_of(metadata: Mapping[str, Any]) -> str:
    """Return the job of a Pod by its labels; `OTHERS` where it has none."""
    labels = metadata.get("labels") or {}
    return str(next(filter(None, map(labels.get, JOB_LABELS)), OTHERS))

"""Kubernetes' own scheduling specs pass with CARICO in kube-scheduler's place, as they do with kube-scheduler."""

import pathlib

import pytest

from tests.tools import debian
from tests.upstream import scheduling_suite, suite_stage

# In Kubernetes 1.36.4.
SPECS, CONFORMANCE, SKIPPED = 30, 11, 2
_ON_KUBELETS = pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed()))


@pytest.mark.upstream
@pytest.mark.real_programs
@pytest.mark.timeout(scheduling_suite.SUITE_TIMEOUT_S + 600)
@pytest.mark.parametrize("scheduler", suite_stage.SCHEDULERS)
@pytest.mark.parametrize("nodes", ["kwok", pytest.param("kubelet", marks=_ON_KUBELETS)])
async def test_every_spec_passes(nodes: str, scheduler: str, tmp_path: pathlib.Path) -> None:
    found = await scheduling_suite.run(scheduler, nodes, tmp_path)
    assert [(each.name, each.message) for each in found if not each.is_fine] == []
    assert sum(each.is_conformance and each.state == "passed" for each in found) == CONFORMANCE
    assert (len(found), sum(each.state == "skipped" for each in found)) == (SPECS, SKIPPED)

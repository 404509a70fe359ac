"""Kubernetes' own scheduling specs pass with CARICO in kube-scheduler's place, as they do with kube-scheduler."""

import pathlib

import pytest

from tests.upstream import scheduling_suite

# In Kubernetes 1.36.4.
SPECS, CONFORMANCE, SKIPPED = 30, 11, 2


@pytest.mark.upstream
@pytest.mark.real_programs
@pytest.mark.timeout(scheduling_suite.SUITE_TIMEOUT_S + 600)
@pytest.mark.parametrize("scheduler", scheduling_suite.SCHEDULERS)
async def test_every_spec_passes(scheduler: str, tmp_path: pathlib.Path) -> None:
    found = await scheduling_suite.run(scheduler, tmp_path)
    assert [(each.name, each.message) for each in found if not each.is_fine] == []
    assert sum(each.is_conformance and each.state == "passed" for each in found) == CONFORMANCE
    assert (len(found), sum(each.state == "skipped" for each in found)) == (SPECS, SKIPPED)

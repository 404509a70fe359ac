"""The Dockerfile, built for real by an engine that the test starts."""

import pytest

from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian
from tests.tools.docker import images

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]


def test_each_image_is_small_and_has_no_user(site_images: kubelet_site.Images) -> None:
    images.check(site_images.running.engine, [images.SERVICES, images.NATS])


@pytest.mark.parametrize("program", ["carico-agent", "carico-aggregator", "carico-scheduler", "carico-auth"])
def test_each_entry_point_runs_without_any_right(site_images: kubelet_site.Images, program: str) -> None:
    confined = ("--rm", "--read-only", "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    said = site_images.running.engine.run("run", *confined, images.SERVICES, program, "--help")
    assert said.startswith(f"usage: {program}")


def test_nothing_of_the_build_is_left_in_it(site_images: kubelet_site.Images) -> None:
    tools = "command -v pip gcc git curl wget || true; ls /src /wheels 2>/dev/null || true"
    said = site_images.running.engine.run("run", "--rm", "--network", "none", images.SERVICES, "sh", "-c", tools)
    assert said == ""


def test_a_setting_that_is_wrong_ends_with_one_line(site_images: kubelet_site.Images) -> None:
    engine = site_images.running.engine
    with pytest.raises(Exception, match="nearest: CARICO_AGENT_NODE"):
        engine.run(
            "run", "--rm", "--network", "none", "--env", "CARICO_AGENT_NOD=x", images.SERVICES, "carico-agent"
        )  # fmt: skip

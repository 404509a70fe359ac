"""Reports as people look at them: printed on one page, and in dark mode with dark charts."""

import pathlib
import re
from collections.abc import Callable
from typing import Any, Literal

import playwright.async_api as browsers
import pytest

from carico_cli.evaluation import page as evaluation_page
from carico_cli.jobs import compare_page, demo_page
from carico_twin.evaluate import contenders, results, runs, study
from tests.unit.cli.jobs import test_cli_compare_page, test_cli_live_view
from tests.unit.twin.evaluate import test_twin_evaluate

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

REPORTS: dict[str, Callable[[], str]] = {
    "demo": lambda: demo_page.page(test_cli_live_view.some_report(test_cli_live_view.three_pods())),
    "compare": lambda: compare_page.page(test_cli_compare_page.report()),
    "evaluate": lambda: evaluation_page.page(_evaluated()),
}
# Colours of a chart's text and of the page.
SHOWN: dict[Literal["dark", "light"], tuple[str, str]] = {
    "dark": ("rgb(230, 233, 245)", "rgb(20, 24, 42)"), "light": ("rgb(28, 35, 64)", "rgb(255, 255, 255)"),
}  # fmt: skip
# Of a printed page; /Pages is their list.
PRINTED = re.compile(rb"/Type\s*/Page\b(?!s)")


def _evaluated() -> Any:
    done = [runs.run(task) for task in test_twin_evaluate.tasks("constant-0.75", contenders.DEFAULT, seeds=1)]
    return results.document(study.Selection(plan=test_twin_evaluate.SMALL, seeds=1), done)


@pytest.mark.parametrize("name", REPORTS)
async def test_a_report_prints_on_one_light_page_and_is_dark_in_dark_mode(
    page: browsers.Page, tmp_path: pathlib.Path, name: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text(REPORTS[name](), encoding="utf-8")
    await page.goto(path.as_uri())
    ink = "getComputedStyle(document.querySelector('figure svg text')).fill"
    paper = "getComputedStyle(document.body).backgroundColor"
    for scheme, shown in SHOWN.items():
        await page.emulate_media(color_scheme=scheme)
        assert (await page.evaluate(ink), await page.evaluate(paper)) == shown
        assert len(PRINTED.findall(await page.pdf(format="A4"))) == 1
        await page.emulate_media(media="print", color_scheme=scheme)
        assert await page.evaluate(paper) == "rgb(255, 255, 255)"
        await page.emulate_media(media="screen")

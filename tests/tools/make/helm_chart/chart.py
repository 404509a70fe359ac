"""The chart: what it consists of, and where it is."""

import concurrent.futures
import pathlib

from tests.tools import kubernetes
from tests.tools.docker import images
from tests.tools.make.helm_chart import combinations, values, writing

CHART = combinations.DEPLOY / "helm" / "carico"
# What is written; the rest of the chart is written by hand.
WRITTEN = ("templates/*.yaml", "files/**/*", "values.yaml", "values.schema.json")
# kustomize is a process, so that threads can wait for several.
_AT_ONCE = 2


def made() -> writing.Texts:
    """Return what the chart consists of, apart from what is written by hand."""
    samples = combinations.samples()
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        renderings = pool.map(lambda each: combinations.rendered(each, kustomized), samples)
        found = writing.objects(dict(zip(samples, renderings, strict=True)))
    return {
        **writing.texts(found),
        "values.yaml": values.text(found, nats=images.NATS),
        "values.schema.json": values.schema(found),
    }


def written() -> list[pathlib.Path]:
    """Return the files that were written before."""
    return [path for pattern in WRITTEN for path in sorted(CHART.glob(pattern)) if path.is_file()]


def kustomized(folder: pathlib.Path) -> str:
    """Return what kustomize makes of a folder."""
    return kubernetes.kubectl("kustomize", str(folder))

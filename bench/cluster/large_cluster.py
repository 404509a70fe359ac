"""5,000 Nodes: a backlog of 10,000 Pods, compared with the real kube-scheduler, and CARICO with 30,000 running Pods.

`python -m bench large_cluster`; set up as `control_plane` says. With `--quick` one run of each scheduler.
"""

from bench.cluster import control_plane

NODES = 5000


def run(quick: bool) -> list[control_plane.Row]:
    """The table of this module."""
    size = control_plane.Size(nodes=NODES, pods=10_000, runs=1 if quick else 3, factor=1.5)
    return [*control_plane.standing_rows(NODES, 30_000), *control_plane.backlog_rows(size)]

"""`carico targets`: what a Prometheus reads of a local cluster."""

from carico_cli.clusters import addresses
from carico_local.cluster import machine, plan, processes, state

MACHINE = machine.Machine(
    cpus=2.0, memory_available_bytes=2**35, memory_total_bytes=2**35, processor="test", kernel="6.18"
)


def test_each_service_with_metrics_of_ours_is_a_target_of_its_kind() -> None:
    process = processes.ProcessId(pid=7, start_ticks=8)
    ports = {
        "nats": None, "api": 1, "kube-apiserver": 2, "kwok": 3, "scheduler": 4, "scheduler-2": 5, "aggregator": 6,
        "agent/node-1": 7, "node/node-1": None, "fleet": 8,
    }  # fmt: skip
    services = tuple(
        state.ServiceState(name=name, process=process, ready=True, restarts=0, http_port=port)
        for name, port in ports.items()
    )
    found = state.ClusterState(
        plan=plan.make_plan(plan.Wish(name="x", nodes=1), MACHINE), phase=state.Phase.READY, supervisor=process,
        started_ns=1, nats_url="n", api_url="a", services=services, crashes=(), notes=(), failure=None,
    )  # fmt: skip
    jobs = {(each["labels"]["job"], each["labels"]["service"]): each["targets"] for each in addresses.targets(found)}
    assert jobs == {
        ("carico-scheduler", "scheduler"): ["127.0.0.1:4"],
        ("carico-scheduler", "scheduler-2"): ["127.0.0.1:5"],
        ("carico-aggregator", "aggregator"): ["127.0.0.1:6"],
        ("carico-agent", "agent/node-1"): ["127.0.0.1:7"],
        ("carico-fleet", "fleet"): ["127.0.0.1:8"],
    }

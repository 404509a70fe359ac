"""Clusters on one machine: control planes, nodes, workloads, and measurements of them.

cluster         `carico up`, `status`, `down`: the plan of a cluster, its supervisor and its services
api             the embedded Kubernetes API
control_plane   the real one: etcd, API server, controllers and scheduler, with their certificates
binaries        programs that no Python package contains: found on the machine, else built once
node            an emulated node: a kubelet whose containers are processes of this machine
contained       an emulated node with its agent in one container, for `docker compose`
kubelets        real kubelets in namespaces of this machine
played_nodes    thousands of nodes, played by kwok and one process
cgroups         control groups of nodes: found, created, limited, swept
workloads       the programs that Pods of a job run
applications    services that send each other requests, and their users
compare         `carico compare`: the same job, or the applications, under one scheduler after another
jobs            Pods of one workload with a common label: created, observed, reported
nats_server     the program of a NATS server, and a configuration with JetStream on loopback
qos             quality-of-service classes of Pods: CPU weights and OOM scores, as in a kubelet
process_ids     whether a process that was recorded still runs
atomic_files    files that are replaced atomically
"""

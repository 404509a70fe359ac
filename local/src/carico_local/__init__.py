"""Clusters of one machine: control planes, nodes, workloads, and what is measured on them.

cluster         `carico up`, `status`, `down`: the plan of a cluster, its supervisor and its services
api             the embedded Kubernetes API
control_plane   the real one: etcd, API server, controllers and scheduler, with their certificates
binaries        programs that no Python package brings: found on the machine, else built once
node            an emulated node: a kubelet whose containers are processes of this machine
contained       an emulated node with its agent in one container, for `docker compose`
kubelets        real kubelets in namespaces of this machine
played_nodes    nodes by the thousand, which kwok and one process play
cgroups         control groups of nodes: found, made, limited, swept
workloads       what Pods of a job run
compare         `carico compare`: the same job under one scheduler after another
report          figures of a job that has run
job             Pods of one workload under one label, as they are submitted
observer        follows a cluster and its jobs while they run
nats_server     a NATS server with JetStream on loopback
"""

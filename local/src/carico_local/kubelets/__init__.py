"""Real kubelets on one machine: each node is a set of namespaces and cgroups, without a container engine.

Everything in the namespaces (processes, mounts, interfaces, firewall rules) disappears with the node's first process,
however that ends; the rest (cgroups, one bridge) is named after the cluster.

    programs        the programs of this machine that a node runs, and which of them are missing
    images          images that nodes start with, made from this machine's files: sandboxes, workloads
    image_archive   ... written as archives of one layer, with the shared libraries that programs need
    configuration   the configuration files of one node (pure)
    instructions    ... written for each node, with its keys
    network         the nodes' network: a free range of addresses, one bridge, a link into each node
    relay           makes an API server on loopback reachable from the nodes' network
    metrics_api     metrics.k8s.io by metrics-server, for `kubectl top`
    node_cgroups    a node's cgroups, in every tree
    launcher        starts one node in its namespaces and waits for it
    carico-host-node, carico-node   scripts: the node's own view of this machine, then its programs
    compose/        the same in the containers of `docker compose`, profile `kube`

Started by `carico_local.cluster.services.kubelet_nodes`.
"""

"""Real kubelets on one machine: each node is a set of namespaces and cgroups, and no container engine is needed.

What is in the namespaces (processes, mounts, interfaces, firewall rules) goes with the node's first process, however
that ends; what is not (cgroups, one bridge) bears the cluster's name.

    programs        which programs of this machine a node runs, and what is missing of them
    images          images that a node has from its start, made of this machine's files: sandboxes, workloads
    image_archive   ... written as archives of one layer, with the shared libraries that programs need
    configuration   the files by which one node knows what it is (pure)
    instructions    ... written for each node, with its keys
    network         the nodes' network: a free range of addresses, one bridge, a link into each node
    relay           lets the nodes' network reach an API server that listens on loopback
    cgroups         a node's cgroups, in every tree
    launcher        starts one node in its namespaces and waits for it
    carico-host-node, carico-node   scripts: the node's own view of this machine, then its programs
    compose/        the same in the containers of `docker compose`, profile `kube`

Started by `carico_local.cluster.services.kubelet_nodes`.
"""

"""The Kubernetes API of a local CARICO cluster, and no bigger than that.

It serves Pods, Nodes, Namespaces, Events, Leases and ServiceAccounts to the scheduler, to emulated nodes, to kubectl
and to the official clients, with the semantics of kube-apiserver that those rely on: optimistic concurrency, watches
that can be resumed, binding once, graceful deletion. It has no controllers beside the node lifecycle and no
authorisation beyond one optional bearer token. It is not meant for any other use.
"""

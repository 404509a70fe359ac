"""The Kubernetes API over HTTP and JSON: objects are plain dicts, without model classes.

- `api_client`: `connect`, and the `KubeClient` that everything else uses.
- `api_actions`: what CARICO writes, typed: binds, Events, patches, Leases.
- Informers: `paged_lists` reads a collection page by page, `list_watch` keeps a copy of it up to date, `informer`
  follows it for a service.
- Access: `access` (an API server's address, TLS, and credentials with their renewal); `cluster_access` finds it, in
  in-cluster files or a kubeconfig, which `kubeconfig` reads.
- Transport: `http_client` and `http_answer` (requests over persistent connections, which detect a dead peer),
  `api_errors` (answers as our errors).
"""

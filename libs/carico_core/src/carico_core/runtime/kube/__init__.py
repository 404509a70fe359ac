"""The Kubernetes API over HTTP and JSON: objects are plain dicts, model classes are never built.

- `api_client`: `connect` and the `KubeClient` that everything else uses.
- `api_actions`: what CARICO writes, typed: binds, Events, patches, Leases.
- Mirrors: `paged_lists` reads a collection page by page, `list_watch` keeps a reader's copy of it right.
- Access: `cluster_access` (in-cluster files or a kubeconfig), `credentials` (what a request carries, and its renewal).
- Transport: `http_client` and `http_answer` (requests over kept connections whose dead peer is noticed),
  `api_errors` (answers as our errors).
- `memory_kube`, over `memory_objects`: an API in memory with the same surface, for tests; the same contract tests run
  on both.
"""

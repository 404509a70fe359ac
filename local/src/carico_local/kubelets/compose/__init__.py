"""Real Kubernetes in the containers of `docker compose`, profile `kube` (compose/kube).

addresses    names, folders and ranges that control plane and nodes know of each other without asking
plane        entry point: etcd, API server, controllers and the default scheduler in one container
node         entry point: one kubelet with its agent; the engine has made the namespaces that the launcher makes
             elsewhere, so that only `carico-node` runs in it
images       entry point of the image's build: the images that nodes start with
"""

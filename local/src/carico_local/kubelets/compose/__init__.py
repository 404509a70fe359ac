"""Real Kubernetes in the containers of `docker compose`, profile `kube` (compose/kube).

plane    entry point: etcd, API server, controllers and the default scheduler in one container; also the names,
         directories and address ranges that control plane and nodes agree on
node     entry point: one kubelet with its agent; the engine has created the namespaces that the launcher creates
         elsewhere, so that only `carico-node` runs in it
images   entry point of the image's build: the images that nodes start with
"""

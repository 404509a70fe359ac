#!/bin/sh
# Copies Kubernetes' own programs to the folder that compose/kube/Dockerfile reads. They are found on this machine if their
# minor version is the pinned one, else built once (minutes). CARICO_PYTHON: a Python with carico installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${CARICO_PYTHON:-$here/../../.venv/bin/python}
mkdir -p "$here/bin"
for program in $("$python" -m carico_local.binaries \
    etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns); do
    cp -f "$program" "$here/bin/"
done

"""Programs that no Python package brings (Kubernetes, etcd, kwok, ...): found on this machine, else built once.

tools       a program of a wanted version, from PATH, KUBEBUILDER_ASSETS or the cache
catalog     which Go package each program is; modules/ pins what it is built from
building    builds them
toolchain   a Go that is new enough
cache       where builds are kept
progress    what is said meanwhile
"""

"""Programs that no Python package contains (Kubernetes, etcd, kwok, ...): found on this machine, else built once.

tools       finds a program of the wanted version in PATH, KUBEBUILDER_ASSETS or the cache
catalog     which Go package each program is; modules/ pins what it is built from
building    builds programs
toolchain   finds or installs a recent Go
cache       where builds are kept, the lock of each, and progress reports
"""

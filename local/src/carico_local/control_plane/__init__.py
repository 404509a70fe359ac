"""The real control plane of Kubernetes on one machine: its identities, its commands, its processes."""

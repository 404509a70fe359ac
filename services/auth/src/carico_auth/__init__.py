"""CARICO auth: who may do what on the bus, by the identities of Kubernetes."""

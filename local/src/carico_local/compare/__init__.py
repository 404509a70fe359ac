"""The same job under one scheduler after another, on one cluster: CARICO beside the real kube-scheduler."""

"""Who of several schedulers leads: a Lease of the Kubernetes API, by the rules of client-go."""

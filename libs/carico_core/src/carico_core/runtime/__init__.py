"""What the services' shells share: bus, Kubernetes API, clock, settings, logs, metrics."""

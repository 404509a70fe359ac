"""CARICO's domain, numerics, wire format and runtime."""

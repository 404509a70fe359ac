"""CARICO scheduler: binds Pods by advertised capacity."""

"""Where telemetry comes from, one file per source."""

"""CARICO's twin: a cluster in virtual time that runs the services' own rules."""

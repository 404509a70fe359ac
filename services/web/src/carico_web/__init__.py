"""CARICO web: one live page, which talks to the bus itself, and a small server that gives it out."""

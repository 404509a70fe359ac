"""CARICO agent: one node learns what its work costs and advertises its capacity."""

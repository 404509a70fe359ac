"""What an agent reports about itself.

- `advertisement`: a state as the two messages of the bus. `publishers`: sends them.
- `usage_reports`, `traffic_reports`: what single Pods use, and what they send each other, between two reports.
- `views`: a state for people. `instruments`: metrics. `traces`: the agent's part of a Pod's trace.
"""

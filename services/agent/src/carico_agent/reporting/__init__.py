"""What an agent reports about itself.

- `advertisement`: a state as the two messages of the bus. `publishers`: sends them.
- `views`: a state for people. `instruments`: metrics. `traces`: the agent's part of a Pod's trace.
"""

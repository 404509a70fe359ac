"""What an agent says of itself.

- `advertisement`: a state as the two messages of the bus. `publishers`: send them.
- `views`: a state as people see it. `instruments`: metrics. `traces`: the agent's part of a Pod's trace.
"""

"""Which running containers move: less traffic between servers and less overload.

- `containers`: the paper's model, of traffic between containers and overload of servers, and its algorithms.
- `services`: services of equal containers, with a limit of moves.
- `pod_traffic`: traffic between Pods from what agents report of connections.
- `compiled`: numba if it is installed.
"""

"""Traffic between Pods: the port `carico_agent.ports.TrafficSource`, off unless the settings name an adapter.

- `sockets`: from the kernel's TCP sockets. `inet_diag`: its messages. `diagnostics`: its netlink sockets, also in other
  network namespaces. `connections`: from dumps and ended sockets to bytes; pure. `owners`: which Pod has a socket.
- `recorded`: from a file of reports. `promql`: from a query to Prometheus.
- `sources` opens what the settings name.
"""

"""Sources below /proc: the whole host, or the processes of an emulated node.

- `kernel_file`: a file of /proc or a cgroup that is kept open, and rates of the counters in it.
- `host_cpu`: /proc/stat. `meminfo`: /proc/meminfo. `pressure`: PSI, also of one cgroup.
- `process_accounting`: the node's processes themselves, where no cgroup can be read.
"""

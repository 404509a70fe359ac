"""What every process of CARICO needs.

- `tasks`: how a service runs: start, event loop, signals, exit codes, tasks that must not end, rates.
- `clock`: time, as an argument; the only reader of the machine's clocks.
- `settings`: settings from flags and environment into frozen dataclasses; `setting_values`: the kinds of their values.
- `connections`: the connections of a server that anybody can reach, bounded.
- `memory_use`: modules that are not loaded, memory returned to the system, fewer garbage collections.
"""

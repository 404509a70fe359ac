"""What every process of CARICO needs.

- `tasks`: how a service runs: start, event loop, signals, exit codes, tasks that must not end, rates.
- `clock`: time, as an argument; the only reader of the machine's clocks.
- `settings`: settings from flags and environment into frozen dataclasses; `setting_values`: the kinds of their values.
- `connections`: an HTTP server that anybody can reach: its connections are bounded.
- `memory_use`: modules that are not loaded, memory returned to the system, fewer garbage collections.
"""

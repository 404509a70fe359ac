"""What every process of CARICO needs.

- `entry`: a service's entry point: settings, logs, then its work.
- `tasks`: event loop, signals, exit codes, tasks that must not end, rates.
- `clock`: time, as an argument; the only reader of the machine's clocks.
- `settings`: settings from flags and environment into frozen dataclasses; `setting_values`: the kinds of their values.
- `memory_use`: modules left out, memory given back, the garbage collector run seldom.
"""

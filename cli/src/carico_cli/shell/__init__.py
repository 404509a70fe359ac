"""The process around a command.

- `exits`: exit codes; Ctrl-C during imports
- `interrupts`: Ctrl-C while a command runs
- `settings`: what the environment says, read once
- `options`: flags that several commands share
"""

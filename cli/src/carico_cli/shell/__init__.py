"""The process around a command.

- `exits`: exit codes, and Ctrl-C
- `settings`: the environment, read once
- `options`: flags that several commands share; `manifest_files`: files of manifests that a flag names
"""

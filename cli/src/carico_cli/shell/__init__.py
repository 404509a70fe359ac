"""The process around a command.

- `exits`: exit codes, and Ctrl-C
- `settings`: the environment, read once
- `options`: flags that several commands share; `user_files`: files that a flag names, `manifest_files`: of manifests
"""

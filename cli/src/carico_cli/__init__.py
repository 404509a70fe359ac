"""The `carico` command. One room a subject; a command is a click command in a module of its room.

- `main`, `application`: the entry point; the list of commands, in the sections of the help
- `shell/`: exit codes and Ctrl-C, what the environment says, flags that commands share
- `clusters/`: up, down, status, logs, env, web, bus-config; `which` finds the cluster that is meant, for every command
- `live/`: reads a cluster's signals into an immutable picture, for every command that shows them
- `top/`: the screen of `carico top`, and the words and columns that other views share
- `jobs/`: submit, demo and compare: work on a cluster
- `explain/`: explain and capacity: the scheduler's answers in words
- `doctor/`: checks a cluster
- `recordings/`: record and replay
- `evaluation/`: evaluate: the twin's figures in words
- `output/`: tables, pages and charts
- `reference/`: docs/metrics.md and docs/settings.md, written from the code
"""

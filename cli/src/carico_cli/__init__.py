"""The `carico` command, one package for each subject; a command is a click command in a module of its package.

- `main`: the entry point; `application`: the list of commands, in the sections of the help
- `shell/`: exit codes and Ctrl-C, the environment, flags that commands share
- `clusters/`: up, down, list, status, logs, env, web, targets, decode, bus-config; `which` finds a command's cluster
- `live/`: reads a cluster's signals into an immutable picture, for every command that shows them
- `top/`: the screen of `carico top`, and the columns and lines that other views share
- `jobs/`: submit, demo and compare
- `explain/`: explain and capacity: the scheduler's answers as text
- `recommend/`: requests and limits for what Pods really use
- `doctor/`: checks a cluster
- `recordings/`: record and replay
- `rescheduling/`: reschedule: which running containers to move
- `evaluation/`: evaluate: the results of simulated clusters as text, page and charts
- `output/`: tables, pages and charts
- `reference/`: writes the tables of docs/metrics.md, settings.md and security.md from the code
"""

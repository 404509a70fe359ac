"""Control groups of local nodes.

layout       where they are mounted: v1, v2, both, or none
group        one group: made, limited, joined, read, emptied, removed
node_group   the group of an emulated node, or why there is none
delegation   what a group of v2 passes down, and what systemd gives to a user
sweep        removes what a cluster left behind
"""

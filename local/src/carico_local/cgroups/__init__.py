"""Control groups of local nodes.

layout       where they are mounted: v1, v2, both, or none
group        one group: created, limited, read, emptied, removed
node_group   the group of an emulated node, or why there is none
delegation   controllers of v2 groups, and groups that systemd delegates to a user
sweep        removes what a cluster left behind
"""

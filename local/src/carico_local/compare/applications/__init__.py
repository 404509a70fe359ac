"""Service times of the three applications before and after rescheduling, on one cluster, contender after contender.

contender    who places the Pods, and what moves them
experiment   one run: Pods are placed as in the paper, users send requests, Pods are moved, users go on
pods         the applications' Pods as the API has them, and the directory that their clients follow
descheduler  the Kubernetes descheduler, run once
published    the paper's tables
result       what a run found, and the report of all runs next to the published figures
"""

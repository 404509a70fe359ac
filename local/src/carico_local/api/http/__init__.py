"""Requests in, answers out.

server         the application: routes, and failures as Statuses
handlers       the verbs: get, list, create, replace, patch, delete, bind, evict
requests       what a request says: its JSON body, its query
watch_answers  the answer to a watch, line by line
pod_logs       logs of a Pod, fetched from the kubelet of its node
"""

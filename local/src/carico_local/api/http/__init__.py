"""Requests and answers.

server         the application: routes, and failures as Statuses
handlers       the verbs: get, list, create, replace, patch, delete, bind, evict
requests       the JSON body and the query of a request
watch_answers  the answer to a watch, line by line
pod_logs       logs of a Pod, fetched from the kubelet of its node
"""

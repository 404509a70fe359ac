"""The embedded Kubernetes API of local clusters, over one SQLite database.

It serves Pods, Nodes, Namespaces, ConfigMaps, Secrets, ServiceAccounts, Events and Leases to the scheduler, emulated
nodes, kubectl and the official clients, with the semantics of kube-apiserver that those rely on: optimistic
concurrency, watches that can be resumed, binding once, graceful deletion. Requests for anything else get an error that
refers to `carico up --control-plane real` (ADR 5).

A request passes access, http.server and one of http.handlers, which calls the parts of a cluster:

access      who may use it: token, Host, Origin, Content-Type; also writes kubeconfigs
main        the process: settings, one port; `python -m carico_local.api`
cluster     the parts of one cluster, assembled
http/       requests and answers: routes, verbs, watches, a Pod's logs
kubectl/    what kubectl reads besides objects: discovery, OpenAPI, tables
lifecycle/  writes and their consequences: create, update, delete, bind, expire
rules/      defaults and validation, by kind
model/      resources, schema, patches, Statuses; imports none of the others
storage/    objects by key and revision, their history, lists and selectors
"""

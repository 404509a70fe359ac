"""The embedded Kubernetes API: the stage on which the scheduler runs in a local cluster, over one SQLite database.

It serves Pods, Nodes, Namespaces, ConfigMaps, Secrets, ServiceAccounts, Events and Leases to the scheduler, emulated
nodes, kubectl and the official clients, with the semantics of kube-apiserver that those rely on: optimistic
concurrency, watches that can be resumed, binding once, graceful deletion. What it leaves out is answered by a line that
names `carico up --control-plane real` (ADR 5).

A request passes access, http.server and one of http.handlers, which asks the parts of a cluster:

access      who may use it: token, Host, Origin, Content-Type; also writes kubeconfigs
main        the process: settings, one port; `python -m carico_local.api`
cluster     the parts of one cluster, put together
http/       requests in, answers out: routes, verbs, watches, a Pod's logs
kubectl/    what kubectl reads apart from objects: discovery, OpenAPI, tables
lifecycle/  writes and what follows from them: create, update, delete, bind, expire
rules/      what an object must be: defaults and validation, by kind
model/      what an object is: resources, schema, patches, Statuses; knows nothing of the rest
storage/    objects by key and revision, their history, lists and selectors
"""

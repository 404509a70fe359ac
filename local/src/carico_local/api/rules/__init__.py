"""What an object must be, in kube-apiserver's words.

validation     every kind: what is checked on create and on update
defaulting     what is filled in where a client said nothing
placement      affinity, spread constraints, tolerations
volumes        volumes and their mounts
configuration  ConfigMaps, Secrets, and the variables that name them
event_forms    Events in core v1 and in events.k8s.io, and from one to the other
fields         what they share: names, labels, the causes of a 422
"""

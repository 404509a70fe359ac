"""Write the Helm chart (deploy/helm/carico) from deploy/k8s: `python -m tests.tools.make.helm_chart`, or `make chart`.

kustomize renders the overlays with each of the components, and one with each pair. What all renderings have in common
becomes plain YAML, what differs gets the condition that tells the renderings apart.

combinations  which overlays and components there are, and what kustomize makes of each combination
conditions    the shortest condition by which some combinations differ from others
merging       one tree of all renderings of an object
expressions   what a value of values.yaml replaces: images, the namespace, settings, replicas, resources
writing       templates and files of the chart
values        values.yaml and its schema
chart         all of it, and where it is
"""

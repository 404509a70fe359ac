"""Which Pods are of a kind: those of one owner, or of one template where owners are generated.

Costs are learnt per class. Agent and scheduler name classes by the same rule, so that what one advertises the other
finds.
"""

import re

from carico_core.domain import cluster

# https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
_TEMPLATE_HASH = "pod-template-hash"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
_APP = "app.kubernetes.io/name"
# A CronJob names its Jobs by the minute they are due; an owner made with generateName ends in five characters.
_GENERATED = re.compile(r"-(?:\d{8,10}|[bcdfghjklmnpqrstvwxz2456789]{5})$")
# Within what a class may be called on the bus (messages.md): longer ones lose their end.
NAME_MAX = 512


def class_of(pod: cluster.Pod) -> str:
    """Return the class of a Pod: kind, namespace and name template of its controlling owner; unowned ones by their
    application's name where they are labelled with one, else by image.

    The ReplicaSets of one Deployment, and the Jobs of one CronJob, are one class.
    """
    owner = pod.owner
    if owner is None:
        app = pod.labels.get(_APP)
        return (f"app/{pod.namespace}/{app}" if app else f"image/{pod.image}")[:NAME_MAX]
    name = owner.name
    template_hash = pod.labels.get(_TEMPLATE_HASH)
    if template_hash and name.endswith(f"-{template_hash}"):
        name = name[: -len(template_hash) - 1]
    else:
        name = _GENERATED.sub("", name)
    return f"{owner.kind}/{pod.namespace}/{name}"[:NAME_MAX]

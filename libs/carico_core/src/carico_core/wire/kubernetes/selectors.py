"""Label selectors and node selectors of API objects -> `carico_core.domain.selectors`."""

from carico_core.domain import selectors
from carico_core.wire.kubernetes import object_fields as fields


def label_selector(obj: fields.Object, key: str, path: str) -> selectors.Selector:
    """Return the LabelSelector at `key`: None if there is none, () if it is empty. Raises `ValueError`."""
    if obj.get(key) is None:
        return None
    found, path = fields.mapping(obj, key, path), f"{path}{key}."
    labels = fields.texts(found, "matchLabels", path)
    equals = [
        selectors.Requirement(key=name, operator=selectors.IN, values=(value,))
        for name, value in sorted(labels.items())
    ]
    return (*equals, *requirements(found, "matchExpressions", path))


def requirements(obj: fields.Object, key: str, path: str) -> tuple[selectors.Requirement, ...]:
    """Return the requirements at `key`. Raises `ValueError`."""
    return tuple(
        selectors.Requirement(
            key=fields.required(item, "key", f"{path}{key}."),
            operator=fields.required(item, "operator", f"{path}{key}."),
            values=fields.words(item, "values", f"{path}{key}."),
        )
        for item in fields.objects(obj, key, path)
    )


def node_terms(obj: fields.Object, path: str) -> selectors.NodeTerms:
    """Return the terms of a NodeSelector. Raises `ValueError`."""
    return tuple(
        node_term(item, f"{path}nodeSelectorTerms.") for item in fields.objects(obj, "nodeSelectorTerms", path)
    )


def node_term(obj: fields.Object, path: str) -> selectors.NodeTerm:
    """Return one NodeSelectorTerm. Raises `ValueError`."""
    return selectors.NodeTerm(
        labels=requirements(obj, "matchExpressions", path), fields=requirements(obj, "matchFields", path)
    )


def topology_terms(obj: fields.Object) -> selectors.NodeTerms:
    """Return the allowed topologies of a StorageClass as node terms; one without expressions allows nothing."""
    return tuple(
        selectors.NodeTerm(
            labels=tuple(
                selectors.Requirement(
                    key=fields.required(each, "key", "allowedTopologies."),
                    operator=selectors.IN,
                    values=fields.words(each, "values", "allowedTopologies."),
                )
                for each in fields.objects(item, "matchLabelExpressions", "allowedTopologies.")
            )
        )
        for item in fields.objects(obj, "allowedTopologies")
    )

"""The rules of Events: few for the core kind, strict for events.k8s.io (pkg/apis/core/validation/events.go)."""

from carico_local.api import causes, objects

_NOTE_MOST = 1024
_NAME_MOST = 128


def every(data: objects.Object) -> causes.Causes:
    """What is wrong with an Event in its core form."""
    about = data.get("involvedObject") or {}
    namespace = data["metadata"].get("namespace")
    # An event about a cluster-wide object lives in the namespace default.
    if about.get("namespace", "") != namespace and (
        about.get("namespace") or namespace not in ("default", "kube-system")
    ):
        yield causes.wrong("involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace")


def grouped(data: objects.Object) -> causes.Causes:
    """What is wrong besides with one in its core form that came by events.k8s.io."""
    if not data.get("eventTime"):
        yield causes.required("eventTime")
    for field, name in (
        ("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance"),
        ("action", "action"), ("reason", "reason"),
    ):  # fmt: skip
        if not data.get(field):
            yield causes.required(name)
        elif len(data[field]) > _NAME_MOST and field != "reportingComponent":
            yield causes.wrong(name, "", f"can have at most {_NAME_MOST} characters")
    if len(data.get("message") or "") > _NOTE_MOST:
        yield causes.wrong("message", "", f"can have at most {_NOTE_MOST} characters")
    if data.get("type") not in ("Normal", "Warning"):
        yield causes.wrong("type", "", f"has invalid value: {data.get('type', '')}")

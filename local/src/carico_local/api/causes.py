"""The causes of a 422, in kube-apiserver's words (k8s.io/apimachinery/pkg/util/validation/field/errors.go)."""

from collections.abc import Iterator

from carico_local.api import statuses

Causes = Iterator[statuses.Cause]


def required(field: str, detail: str = "") -> statuses.Cause:
    """A field that is missing."""
    message = f"Required value: {detail}" if detail else "Required value"
    return statuses.Cause(reason="FieldValueRequired", message=message, field=field)


def wrong(field: str, got: object, detail: str) -> statuses.Cause:
    """A value that breaks a rule."""
    shown = f'"{got}"' if isinstance(got, str) else str(got)
    return statuses.Cause(reason="FieldValueInvalid", message=f"Invalid value: {shown}: {detail}", field=field)


def not_supported(field: str, got: object, allowed: tuple[str, ...]) -> statuses.Cause:
    """A value that is none of those there are."""
    listed = ", ".join(f'"{value}"' for value in allowed)
    message = f'Unsupported value: "{got}": supported values: {listed}'
    return statuses.Cause(reason="FieldValueNotSupported", message=message, field=field)


def forbidden(field: str, detail: str) -> statuses.Cause:
    """A change or a field that is not allowed here."""
    return statuses.Cause(reason="FieldValueForbidden", message=f"Forbidden: {detail}", field=field)


def duplicate(field: str, got: object) -> statuses.Cause:
    """A value that is there already."""
    return statuses.Cause(reason="FieldValueDuplicate", message=f'Duplicate value: "{got}"', field=field)

"""What in a manifest is replaced by a value of the release: namespace, images, settings, resources, replicas."""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

# Where something is in an object: keys, and names of elements.
Path: TypeAlias = tuple[str, ...]
# The namespace of deploy/k8s.
NAMESPACE = "carico"
# How the names of our settings begin.
SETTING = "CARICO_"
RELEASE_NAMESPACE = ".Release.Namespace"
# Settings by which other objects go: probes, Services and NetworkPolicies by ports, rights by the names of objects.
_AGREED = re.compile(r"_(HTTP|ADMISSION)_PORT$|^CARICO_LEADER_NAME(SPACE)?$|_ADMISSION_WEBHOOK$")
# A name in the cluster's DNS, or an account as NAMESPACE/NAME.
_IN_NAMESPACE = re.compile(rf"(?<=\.){NAMESPACE}(?=\.svc)|(?<![\w./-]){NAMESPACE}(?=/)")
# Words that YAML reads as something else than text.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def is_agreed(setting: str) -> bool:
    """Whether another value of this setting would break the installation, as other objects go by it."""
    return _AGREED.search(setting) is not None


def scalar(value: Any, path: Path, service: str | None) -> str:
    """Return a value that is no mapping and no list, as text of the template."""
    if isinstance(value, str) and "{{" in value:
        raise ValueError(f"{'/'.join(path)}: text with braces must be in a file of the chart")
    if path[-1] == "image":
        return _image(value)
    if path[-1] == "imagePullPolicy":
        return "{{ .Values.image.pullPolicy }}"
    if path[-1] == "namespace" and value == NAMESPACE and path[0] in ("metadata", "subjects", "webhooks"):
        return f"{{{{ {RELEASE_NAMESPACE} }}}}"
    if path[-1] == "replicas" and service not in (None, "nats"):
        return f"{{{{ ((.Values.{service}).replicas) | default {value} }}}}"
    if path[-1] == "value" and path[-3:-2] == ("env",) and path[-2].startswith(SETTING) and not is_agreed(path[-2]):
        return f'{{{{ include "carico.setting" (list . "{service}" "{path[-2]}" {_argument(value)}) }}}}'
    if isinstance(value, str) and _IN_NAMESPACE.search(value):
        return f"{{{{ {_argument(value)} | quote }}}}"
    return _text(value)


def content(path: str, text: str) -> str:
    """Return the text of a file of the chart, as text of the template."""
    replaced = f' | replace ".{NAMESPACE}.svc" (printf ".%s.svc" {RELEASE_NAMESPACE})'
    return f'{{{{ .Files.Get "{path}"{replaced if _IN_NAMESPACE.search(text) else ""} | toJson }}}}'


def listed(names: Sequence[str]) -> str:
    """Return names as a list of the template language."""
    return f"(list {' '.join(json.dumps(name) for name in names)})"


def more_settings(service: str, indent: int) -> list[str]:
    """Return the lines that add the settings of the values file which the manifest does not name, as `$named` does."""
    return [
        f'{{{{- with include "carico.settings" (list . "{service}" $named) }}}}',
        f"{{{{- . | nindent {indent} }}}}",
        "{{- end }}",
    ]


def resources(service: str, default: Sequence[str], indent: int) -> list[str]:
    """Return the lines of a container's resources, of which `default` are those of the manifest."""
    return [
        f"{{{{- with ((.Values.{service}).resources) }}}}",
        f"{' ' * indent}resources: {{{{- toYaml . | nindent {indent + 2} }}}}",
        "{{- else }}",
        *default,
        "{{- end }}",
    ]


def pull_secrets(indent: int) -> list[str]:
    """Return the lines of a Pod's pull secrets."""
    return [
        "{{- with .Values.imagePullSecrets }}",
        f"{' ' * indent}imagePullSecrets: {{{{- toYaml . | nindent {indent + 2} }}}}",
        "{{- end }}",
    ]


def _image(value: str) -> str:
    name, _, _ = value.partition(":")
    if name == "carico":
        return '{{ include "carico.image" . | quote }}'
    if name == "nats":
        return "{{ .Values.nats.image | quote }}"
    raise ValueError(f"image {value}: got another than carico and nats, for which the chart has no value")


def _argument(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    parts = _IN_NAMESPACE.split(value)
    if len(parts) == 1:
        return json.dumps(value)
    pattern = "%s".join(part.replace("%", "%%") for part in parts)
    return f"(printf {json.dumps(pattern)}{f' {RELEASE_NAMESPACE}' * (len(parts) - 1)})"


def _text(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NO_TEXT
    return value if is_plain else json.dumps(value, ensure_ascii=False)

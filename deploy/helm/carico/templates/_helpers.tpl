{{- define "carico.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* A setting as text. Helm reads a number of a values file as a float: 1000000 must not become 1e+06. */}}
{{- define "carico.text" -}}
{{ if kindIs "string" . }}{{ . | quote }}{{ else }}{{ toJson . | quote }}{{ end }}
{{- end }}

{{- /* A setting that the manifest names: (list . SERVICE NAME DEFAULT). */}}
{{- define "carico.setting" -}}
{{- $given := (index (index . 0).Values (index . 1)).settings | default dict }}
{{- include "carico.text" (hasKey $given (index . 2) | ternary (index $given (index . 2)) (index . 3)) }}
{{- end }}

{{- /* Settings whose defaults name the namespace carico. */}}
{{- define "carico.elsewhere" -}}
{{- $root := index . 0 }}
{{- $namespace := $root.Release.Namespace }}
{{- if ne $namespace "carico" }}
{{- if eq (index . 1) "agent" }}
CARICO_AGENT_BASELINE_NAMESPACES: kube-system,{{ $namespace }}
{{- else if eq (index . 1) "scheduler" }}
CARICO_SCHEDULER_BASELINE_NAMESPACES: kube-system,{{ $namespace }}
{{- else if eq (index . 1) "rescheduler" }}
CARICO_RESCHEDULER_BASELINE_NAMESPACES: kube-system,{{ $namespace }}
{{- else if eq (index . 1) "recommender" }}
CARICO_RECOMMENDER_ADMISSION_NAME: carico-recommender.{{ $namespace }}.svc
{{- else if eq (index . 1) "auth" }}
CARICO_AUTH_AGENTS: {{ $namespace }}/carico-agent
CARICO_AUTH_AGGREGATORS: {{ $namespace }}/carico-aggregator
CARICO_AUTH_SCHEDULERS: {{ $namespace }}/carico-scheduler
CARICO_AUTH_RECOMMENDERS: {{ $namespace }}/carico-recommender
CARICO_AUTH_READERS: {{ $namespace }}/carico-reader
CARICO_AUTH_CLIS: {{ $namespace }}/carico-cli
{{- end }}
{{- end }}
{{- end }}

{{- /* All other settings: (list . SERVICE NAMES), without those of NAMES. */}}
{{- define "carico.settings" -}}
{{- $root := index . 0 }}
{{- $given := (index $root.Values (index . 1)).settings | default dict }}
{{- $all := merge (dict) $given (include "carico.elsewhere" . | fromYaml) }}
{{- range $name := index . 2 }}
{{- $_ := unset $all $name }}
{{- end }}
{{- range $name, $value := $all }}
- name: {{ $name }}
  value: {{ include "carico.text" $value }}
{{- end }}
{{- end }}

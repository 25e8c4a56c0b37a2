{{- define "interlock.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "interlock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "interlock.labels" -}}
{{ include "interlock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Refuses values that could only fail later. */ -}}
{{- define "interlock.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.postgresql.url) -}}
{{- fail "replicas must be 1 on SQLite, where one process writes; set postgresql.url for more" -}}
{{- end -}}
{{- with .Values.postgresql.url -}}
{{- if (urlParse .).userinfo | contains ":" -}}
{{- fail "postgresql.url has a password, which a ConfigMap would show; put it into a Secret, and name that in postgresql.passwordSecret.name" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ssllatency.selector" -}}
app.kubernetes.io/name: ssllatency
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "ssllatency.labels" -}}
{{ include "ssllatency.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- range $name, $value := .Values.labels }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}

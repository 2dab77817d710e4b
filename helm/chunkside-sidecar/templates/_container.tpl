{{- define "chunkside.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "chunkside.container" -}}
{{- include "chunkside.checks" . -}}
name: chunkside
image: {{ include "chunkside.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve]
env:
  {{- include "chunkside.env" . | trim | nindent 2 }}
ports:
  {{- if .nodeWide }}
  - name: chunkside
    containerPort: {{ int .Values.ports.data }}
  {{- end }}
  - name: chunkside-admin
    containerPort: {{ int .Values.ports.admin }}
{{- /* It answers once it listens: a reader that starts after it never finds a closed port. */}}
startupProbe:
  httpGet:
    path: /readyz
    port: chunkside-admin
  {{- toYaml .Values.startupProbe | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: chunkside-admin
  {{- toYaml .Values.readinessProbe | nindent 2 }}
livenessProbe:
  httpGet:
    path: /livez
    port: chunkside-admin
  {{- toYaml .Values.livenessProbe | nindent 2 }}
resources:
  {{- include "chunkside.resources" . | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
{{- with include "chunkside.volumeMounts" . | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The container for any pod, native or plain as values say. In a chart that has chunkside-sidecar as a
dependency: include "chunkside.sidecar" (index .Subcharts "chunkside-sidecar")
*/}}
{{- define "chunkside.sidecar" -}}
{{ include "chunkside.container" . }}
{{- if eq (include "chunkside.form" .) "native" }}
restartPolicy: Always
{{- end }}
{{- end -}}

{{/* Items of initContainers: the native sidecar, else nothing. */}}
{{- define "chunkside.initContainers" -}}
{{- if .Values.native -}}
- {{ include "chunkside.sidecar" . | indent 2 | trim }}
{{- end -}}
{{- end -}}

{{/* Items of containers: the plain sidecar, else nothing. */}}
{{- define "chunkside.containers" -}}
{{- if not .Values.native -}}
- {{ include "chunkside.sidecar" . | indent 2 | trim }}
{{- end -}}
{{- end -}}

{{/* Items of the reader's env: where the sidecar is. */}}
{{- define "chunkside.readerEnv" -}}
- name: CHUNKSIDE_URL
  value: http://localhost:{{ int .Values.ports.data }}
{{- end -}}

{{/* What Prometheus asks, as an item of podMetricsEndpoints. A PodMonitor finds native sidecars
too; a ServiceMonitor does not. */}}
{{- define "chunkside.podMetricsEndpoint" -}}
- port: chunkside-admin
  path: /metrics
{{- end -}}

{{/* The URLs of all origins, as JSON. */}}
{{- define "chunkside.upstreams" -}}
{{- $upstreams := list .Values.upstream -}}
{{- range .Values.routes }}{{ $upstreams = append (append $upstreams .upstream) .upstream_endpoint }}{{ end -}}
{{- $upstreams = append $upstreams .Values.settings.upstream_endpoint -}}
{{- $upstreams | compact | uniq | toJson -}}
{{- end -}}

{{/* Ports of the origins outside of the cluster, as JSON. Clouds are asked by TLS. */}}
{{- define "chunkside.upstreamPorts" -}}
{{- $ports := list -}}
{{- range include "chunkside.upstreams" . | fromJsonArray -}}
{{- $url := urlParse . -}}
{{- /* A bucket or an account is no host. */ -}}
{{- $isNear := and (hasPrefix "http" $url.scheme) (eq (include "chunkside.isInCluster" $url.hostname) "true") -}}
{{- if and (ne $url.scheme "file") (not $isNear) -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $ports = append $ports ($port | default (ternary "80" "443" (eq $url.scheme "http"))) -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "chunkside.isUpstreamInCluster" -}}
{{- $found := false -}}
{{- range include "chunkside.upstreams" . | fromJsonArray -}}
{{- $url := urlParse . -}}
{{- if and (hasPrefix "http" $url.scheme) (eq (include "chunkside.isInCluster" $url.hostname) "true") }}{{ $found = true }}{{ end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* A name such as minio, minio.data.svc or minio.data.svc.cluster.local. */}}
{{- define "chunkside.isInCluster" -}}
{{- or (not (or (contains "." .) (contains ":" .))) (hasSuffix ".svc" .) (hasSuffix ".cluster.local" .) -}}
{{- end -}}

{{/* Where all origins answer, as URLs in JSON: a store's endpoint, or the cloud itself. */}}
{{- define "chunkside.upstreams" -}}
{{- $settings := .Values.settings -}}
{{- $upstreams := list -}}
{{- range append .Values.routes (dict "upstream" .Values.upstream) -}}
{{- $url := .upstream -}}
{{- if regexMatch "^(s3|gs|az)://" ($url | default "") -}}
{{- $url = .upstream_endpoint | default $settings.upstream_endpoint | default "https://outside.example" -}}
{{- end -}}
{{- $upstreams = append $upstreams $url -}}
{{- end -}}
{{- $upstreams | compact | uniq | toJson -}}
{{- end -}}

{{/* Ports of the origins outside of the cluster, as JSON. */}}
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

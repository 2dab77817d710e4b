{{/* Where a port listens, on all addresses of the pod. */}}
{{- define "chunkside.everywhere" -}}
{{- $port := int .port -}}
{{- $addresses := list -}}
{{- if has "IPv4" .ipFamilies }}{{ $addresses = append $addresses (printf "0.0.0.0:%d" $port) }}{{ end -}}
{{- if has "IPv6" .ipFamilies }}{{ $addresses = append $addresses (printf "[::]:%d" $port) }}{{ end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* All that the container is told, as a list of environment variables. */}}
{{- define "chunkside.env" -}}
{{- $values := .Values -}}
{{- $given := dict -}}
{{- range $name, $value := $values.settings -}}
{{- $given = set $given $name (include "chunkside.setting" $value) -}}
{{- end -}}
{{- if $values.routes -}}
{{- $given = set $given "routes" (toJson $values.routes) -}}
{{- else -}}
{{- $given = set $given "upstream" $values.upstream -}}
{{- end -}}
{{- $listen := printf "localhost:%d" (int $values.ports.data) -}}
{{- if .nodeWide -}}
{{- $listen = include "chunkside.everywhere" (dict "port" $values.ports.data "ipFamilies" $values.ipFamilies) -}}
{{- /* SERVICE.NAMESPACE is the one name of a Service that public DNS could answer as well. */ -}}
{{- $names := list (printf "%s.%s" .serviceName .Release.Namespace) -}}
{{- with get $given "allowed_hosts" }}{{ $names = append $names . }}{{ end -}}
{{- $given = set $given "allowed_hosts" (join "," $names) -}}
{{- end -}}
{{- $given = set $given "listen" $listen -}}
{{- /* The kubelet and Prometheus ask at the pod's address; there it answers them and nothing else. */ -}}
{{- $given = set $given "admin_listen" (include "chunkside.everywhere" (dict "port" $values.ports.admin "ipFamilies" $values.ipFamilies)) -}}
{{- $given = set $given "cache_size" (include "chunkside.cacheSize" .) -}}
{{- if ne $values.cache.type "none" -}}
{{- $given = set $given "cache_dir" "/var/cache/chunkside" -}}
{{- $given = set $given "min_free" (include "chunkside.minFree" .) -}}
{{- $given = set $given "allow_memory_filesystem" (include "chunkside.inMemory" .) -}}
{{- end -}}
{{- $given = set $given "index_memory" (include "chunkside.indexMemory" .) -}}
{{- $given = set $given "drain_time" (include "chunkside.drainTime" .) -}}
{{- $given = set $given "shutdown_timeout" (include "chunkside.shutdownTimeout" .) -}}
{{- if $values.auth.enabled -}}
{{- $given = set $given "upstream_auth" $values.auth.kind -}}
{{- $given = set $given "upstream_auth_file" "/etc/chunkside/auth/secret" -}}
{{- end -}}
{{- range $name, $value := $given }}
- name: CHUNKSIDE_{{ upper $name }}
  value: {{ $value | quote }}
{{- end }}
{{- if eq (include "chunkside.byServiceAccount" .) "true" }}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_SERVICE_ACCOUNT
  valueFrom:
    fieldRef:
      fieldPath: spec.serviceAccountName
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

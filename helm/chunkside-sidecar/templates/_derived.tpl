{{/*
What follows from the volume's size and the memory limit.

The kubelet evicts a pod whose emptyDir outgrows its sizeLimit, with no grace, and any pod of a node
whose file system has less than 10 % (images: 15 %) left; the kernel kills what outgrows its memory.
All three are far outside of what the sidecar is told to use.
*/}}

{{/* node, native or plain: how the container lives in its pod. */}}
{{- define "chunkside.form" -}}
{{- if .nodeWide }}node{{ else if .Values.native }}native{{ else }}plain{{ end -}}
{{- end -}}

{{/* Four fifths of a volume of its own; the rest is for the table of stamps, for directories, and
for files that are deleted while they are read. */}}
{{- define "chunkside.cacheSize" -}}
{{- $cache := .Values.cache -}}
{{- if eq $cache.type "none" -}}
0
{{- else -}}
{{- $bytes := include "chunkside.bytes" $cache.size | int64 -}}
{{- if lt $bytes 134217728 -}}
{{- fail (printf "cache.size is %s: at least 128Mi is needed, or cache.type=none" $cache.size) -}}
{{- end -}}
{{- if eq $cache.type "hostPath" -}}
{{- $bytes -}}
{{- else -}}
{{- div (mul $bytes 4) 5 -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* On the node's own disk above the kubelet's lines, also where images lie on it. */}}
{{- define "chunkside.minFree" -}}
{{- $cache := .Values.cache -}}
{{- if $cache.minFree -}}
{{- $cache.minFree -}}
{{- else if and (eq $cache.type "emptyDir") (not $cache.emptyDir.medium) -}}
20%
{{- else if eq $cache.type "hostPath" -}}
20%
{{- else -}}
5%
{{- end -}}
{{- end -}}

{{/* A quarter of the memory limit, less what a cache in memory takes of it. The process itself needs
some 130 MiB. */}}
{{- define "chunkside.indexMemory" -}}
{{- $told := .Values.resources.limits.memory -}}
{{- $limit := include "chunkside.bytes" $told | int64 -}}
{{- if eq (include "chunkside.inMemory" .) "true" -}}
{{- $size := include "chunkside.bytes" .Values.cache.size | int64 -}}
{{- if gt (mul $size 2) $limit -}}
{{- fail (printf "cache.size is %s, and a volume in memory counts to resources.limits.memory, which is %s: at most half of it is for the volume" .Values.cache.size $told) -}}
{{- end -}}
{{- $limit = sub $limit $size -}}
{{- end -}}
{{- if lt $limit 268435456 -}}
{{- fail (printf "resources.limits.memory is %s: at least 256Mi is needed, beside what a volume in memory takes" $told) -}}
{{- end -}}
{{- div $limit 4 -}}
{{- end -}}

{{- define "chunkside.inMemory" -}}
{{- and (eq .Values.cache.type "emptyDir") (eq .Values.cache.emptyDir.medium "Memory") -}}
{{- end -}}

{{/* With an emptyDir on disk the volume, and room for logs: the kubelet counts both. */}}
{{- define "chunkside.ephemeralStorage" -}}
{{- $bytes := 268435456 -}}
{{- if and (eq .Values.cache.type "emptyDir") (not .Values.cache.emptyDir.medium) -}}
{{- $bytes = add $bytes (include "chunkside.bytes" .Values.cache.size | int64) -}}
{{- end -}}
{{- printf "%dMi" (div (add $bytes 1048575) 1048576) -}}
{{- end -}}

{{- define "chunkside.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- range $kind := list "requests" "limits" -}}
{{- $of := get $resources $kind | default dict -}}
{{- if not (hasKey $of "ephemeral-storage") -}}
{{- $of = set $of "ephemeral-storage" (include "chunkside.ephemeralStorage" $) -}}
{{- end -}}
{{- $resources = set $resources $kind $of -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/*
How long requests are taken after SIGTERM. A native sidecar is stopped after the reader; a plain one
together with it, so it stays until just before the pod is killed; behind a Service, for as long as
nodes may need to learn that it is gone.
*/}}
{{- define "chunkside.drainTime" -}}
{{- $form := include "chunkside.form" . -}}
{{- if hasKey .Values.settings "drain_time" -}}
{{- include "chunkside.setting" .Values.settings.drain_time -}}
{{- else if eq $form "native" -}}
0
{{- else if eq $form "plain" -}}
{{- max 0 (sub (int64 .Values.terminationGracePeriodSeconds) 5) -}}
{{- else -}}
{{- min 10 (div (int64 .Values.terminationGracePeriodSeconds) 3) -}}
{{- end -}}
{{- end -}}

{{- define "chunkside.shutdownTimeout" -}}
{{- $form := include "chunkside.form" . -}}
{{- if hasKey .Values.settings "shutdown_timeout" -}}
{{- include "chunkside.setting" .Values.settings.shutdown_timeout -}}
{{- else if eq $form "plain" -}}
3
{{- else -}}
{{- min 10 (div (int64 .Values.terminationGracePeriodSeconds) 3) -}}
{{- end -}}
{{- end -}}

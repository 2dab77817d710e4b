{{/* Stops with a sentence where values are fine one by one and can't be together. */}}
{{- define "chunkside.checks" -}}
{{- $values := .Values -}}
{{- if and (not $values.upstream) (not $values.routes) -}}
{{- fail "Which origin? Set upstream, such as https://data.example.org/bucket, or routes" -}}
{{- end -}}
{{- if and $values.upstream $values.routes -}}
{{- fail "upstream and routes are both set: leave one out, or make upstream the route of prefix /" -}}
{{- end -}}
{{- if eq (int $values.ports.data) (int $values.ports.admin) -}}
{{- fail "ports.data and ports.admin are the same" -}}
{{- end -}}
{{- if and $values.auth.enabled (not $values.auth.secretName) -}}
{{- fail "auth.enabled needs auth.secretName, the Secret that holds the credential" -}}
{{- end -}}
{{- if and $values.auth.enabled .nodeWide (not $values.settings.allowed_clients) -}}
{{- fail "With auth.enabled whoever reaches the Service reads with that credential: set settings.allowed_clients to the networks that may, such as [10.0.0.0/8]" -}}
{{- end -}}
{{- if and .nodeWide (regexMatch "^(s3|gs|az)://" (toString $values.upstream)) (not $values.settings.allowed_clients) -}}
{{- fail "With s3://, gs:// or az:// whoever reaches the Service reads with what the cloud's chain of credentials finds: set settings.allowed_clients to the networks that may, such as [10.0.0.0/8]" -}}
{{- end -}}
{{- if and (eq $values.cache.type "persistentVolumeClaim") (not $values.cache.persistentVolumeClaim.claimName) -}}
{{- fail "cache.type=persistentVolumeClaim needs cache.persistentVolumeClaim.claimName" -}}
{{- end -}}
{{- if ne (include "chunkside.form" .) "native" -}}
{{- $drain := include "chunkside.seconds" (include "chunkside.drainTime" .) | int64 -}}
{{- $shutdown := include "chunkside.seconds" (include "chunkside.shutdownTimeout" .) | int64 -}}
{{- if gt (add $drain $shutdown 2) (int64 $values.terminationGracePeriodSeconds) -}}
{{- fail (printf "drain_time (%d s) and shutdown_timeout (%d s) don't fit into terminationGracePeriodSeconds (%d) less 2 s" $drain $shutdown (int64 $values.terminationGracePeriodSeconds)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

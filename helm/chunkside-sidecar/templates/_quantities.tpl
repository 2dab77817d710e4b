{{/* Whole bytes of a Kubernetes quantity such as 10Gi. */}}
{{- define "chunkside.bytes" -}}
{{- $units := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "%s is not a size such as 512Mi or 10Gi" $text) -}}
{{- end -}}
{{- mulf (float64 $number) (get $units $unit) | floor | int64 -}}
{{- end -}}

{{/* Whole seconds, rounded up, of a duration such as 25, 90s or 2m. */}}
{{- define "chunkside.seconds" -}}
{{- $units := dict "" 1.0 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text | trim -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "%s is not a duration such as 25s or 2m" $text) -}}
{{- end -}}
{{- mulf (float64 $number) (get $units $unit) | ceil | int64 -}}
{{- end -}}

{{/* A setting as the environment says it: no 1e+06, lists by commas. */}}
{{- define "chunkside.setting" -}}
{{- if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . }}{{ $items = append $items (include "chunkside.setting" .) }}{{ end -}}
{{- join "," $items -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

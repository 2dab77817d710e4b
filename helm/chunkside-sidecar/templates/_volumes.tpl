{{/* Volumes of the pod: what the container mounts. */}}
{{- define "chunkside.volumes" -}}
{{- $cache := .Values.cache -}}
{{- if ne $cache.type "none" }}
- name: chunkside-cache
{{- if eq $cache.type "emptyDir" }}
  emptyDir:
    {{- with $cache.emptyDir.medium }}
    medium: {{ . }}
    {{- end }}
    sizeLimit: {{ $cache.size }}
{{- else if eq $cache.type "hostPath" }}
  hostPath:
    path: {{ $cache.hostPath.path }}
    type: Directory
{{- else if eq $cache.type "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $cache.ephemeral.storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ $cache.size }}
{{- else }}
  persistentVolumeClaim:
    claimName: {{ $cache.persistentVolumeClaim.claimName }}
{{- end }}
{{- end }}
{{- if .Values.auth.enabled }}
- name: chunkside-auth
  secret:
    secretName: {{ .Values.auth.secretName }}
    items:
      - key: {{ .Values.auth.secretKey }}
        path: secret
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "chunkside.volumeMounts" -}}
{{- $cache := .Values.cache -}}
{{- if ne $cache.type "none" }}
- name: chunkside-cache
  mountPath: /var/cache/chunkside
  {{- if eq (include "chunkside.byServiceAccount" .) "true" }}
  subPathExpr: $(POD_NAMESPACE)/$(POD_SERVICE_ACCOUNT)
  {{- end }}
{{- end }}
{{- if .Values.auth.enabled }}
- name: chunkside-auth
  mountPath: /etc/chunkside/auth
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Whether pods of other namespaces and service accounts have directories of their own. */}}
{{- define "chunkside.byServiceAccount" -}}
{{- and (eq .Values.cache.type "hostPath") .Values.cache.hostPath.byServiceAccount -}}
{{- end -}}

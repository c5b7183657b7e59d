{{- /* The users that synchronize mirrors, as CEL literals. */}}
{{- define "capstan.syncIdentities" -}}
{{- $controllers := printf "system:serviceaccount:%s:capstan-controllers" .Release.Namespace }}
{{- $mirroring := printf "system:serviceaccount:%s:capstan-mirroring" .Release.Namespace }}
{{- $openshift := printf "system:serviceaccount:%s:capi-controllers" .Values.clusterApiNamespace }}
{{- include "capstan.literals" (.Values.syncIdentities | default (list $controllers $mirroring $openshift)) }}
{{- end }}

{{- define "capstan.autoscalerIdentities" -}}
{{- include "capstan.literals" .Values.autoscalerIdentities }}
{{- end }}

{{- /* The users that add and remove the lifecycle hook of etcd, as CEL literals. */}}
{{- define "capstan.hookIdentities" -}}
{{- $operator := "system:serviceaccount:openshift-etcd-operator:etcd-operator" }}
{{- include "capstan.literals" (.Values.hookIdentities | default (list $operator)) }}
{{- end }}

{{- /* Names as CEL literals. The schema of the values admits no quotes. */}}
{{- define "capstan.literals" -}}
{{- range $index, $name := . }}{{ if $index }}, {{ end }}'{{ $name }}'{{ end }}
{{- end }}

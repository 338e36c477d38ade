{{/* An image's name; fails where it is not set. */}}
{{- define "peermem-gate.image" -}}
{{- $repository := required (printf "%s.repository is not set: add --set %s.repository=REGISTRY/NAME" .name .name) .image.repository }}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ required (printf "neither %s.tag nor %s.digest is set: add --set %s.tag=VERSION" .name .name .name) .image.tag }}
{{- end }}
{{- end }}

{{/* The GPU driver's namespace. */}}
{{- define "peermem-gate.namespace" -}}
{{ .Values.namespace | default (ternary "nvidia-gpu-operator" "gpu-operator" .Values.openshift) }}
{{- end }}

{{/* One of ../manifests/PART/kustomization.yaml's objects as kustomize and the settings make it. Takes root, object,
     suffix and version. */}}
{{- define "peermem-gate.object" -}}
{{- $root := .root }}
{{- $object := .object }}
{{- $version := dict "app.kubernetes.io/version" .version }}
{{- $labels := $version }}
{{- if .suffix }}
{{- $labels = merge (dict "app.kubernetes.io/instance" $root.Values.pool) $version }}
{{- $_ := set $object.metadata "name" (print $object.metadata.name .suffix) }}
{{- end }}
{{- if not (has $object.kind (list "ClusterRoleBinding" "NodeReadinessRule")) }}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- if ne $object.kind "NodeReadinessRule" }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
{{- else if .suffix }}
{{- $_ := set $object.metadata "labels" (dict "app.kubernetes.io/instance" $root.Values.pool) }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "name" (print .name $.suffix) }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end }}
{{- if eq $object.kind "DaemonSet" }}
{{- include "peermem-gate.daemonset" (merge (dict "labels" $labels) .) }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}

{{/* A DaemonSet's images, labels, pool and SELinux type, set in place. */}}
{{- define "peermem-gate.daemonset" -}}
{{- $root := .root }}
{{- $template := .object.spec.template }}
{{- $_ := set $template.metadata "labels" (merge .labels $template.metadata.labels) }}
{{- range concat ($template.spec.initContainers | default list) $template.spec.containers }}
{{- $name := first (splitList ":" .image) }}
{{- $image := dict "name" "image" "image" $root.Values.image }}
{{- if eq $name "node-problem-detector" }}
{{- $image = dict "name" "npd.image" "image" $root.Values.npd.image }}
{{- else if eq $name "peermem-doctor" }}
{{- $image = dict "name" "doctor.image" "image" $root.Values.doctor.image }}
{{- else if eq $name "busybox" }}
{{- $image = dict "name" "shell.image" "image" $root.Values.shell.image }}
{{- end }}
{{- $_ := set . "image" (include "peermem-gate.image" $image) }}
{{- end }}
{{- if $root.Values.openshift }}
{{- $_ := set $template.spec "securityContext" (dict "seLinuxOptions" (dict "type" "spc_t")) }}
{{- end }}
{{- if .suffix }}
{{- $pool := $root.Values.pool }}
{{- $_ := set .object.spec.selector.matchLabels "app.kubernetes.io/instance" $pool }}
{{- $_ := unset $template.spec "affinity" }}
{{- $_ := set $template.spec.nodeSelector "peermem-gate/kind" $pool }}
{{- $suffix := .suffix }}
{{- with $template.spec.serviceAccountName }}
{{- $_ := set $template.spec "serviceAccountName" (print . $suffix) }}
{{- end }}
{{- range $template.spec.volumes }}
{{- with .configMap }}
{{- $_ := set . "name" (print .name $suffix) }}
{{- end }}
{{- end }}
{{- $container := first $template.spec.containers }}
{{- $capabilities := $container.securityContext.capabilities }}
{{- $_ := set $capabilities "add" (without $capabilities.add "SYS_PTRACE") }}
{{- $wants := list (dict "name" "GPU_DIRECT_RDMA_ENABLED" "value" "true") }}
{{- if eq $pool "host" }}
{{- $wants = append $wants (dict "name" "USE_HOST_MOFED" "value" "true") }}
{{- else if eq $pool "precompiled" }}
{{- $wants = append $wants (dict "name" "PEERMEM_GATE_PRECOMPILED" "value" "true") }}
{{- end }}
{{- $_ := set $container "env" (concat $container.env $wants) }}
{{- end }}
{{- end }}

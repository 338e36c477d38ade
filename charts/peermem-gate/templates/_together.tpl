{{/* One pod for all that looks at a node. Takes root and objects: the
     DaemonSets of the parts that are enabled, as "peermem-gate.object" made them, fleet's last. One alone stays as it
     is. */}}
{{- define "peermem-gate.together" -}}
{{- $object := first .objects }}
{{- if gt (len .objects) 1 }}
{{- $spec := $object.spec.template.spec }}
{{- range $other := rest .objects }}
{{- $more := $other.spec.template.spec }}
{{- if eq $other.metadata.name "peermem-doctor" }}
{{- include "peermem-gate.report-beside" (dict "spec" $spec "more" $more) }}
{{- end }}
{{- $_ := set $spec "containers" (concat $spec.containers $more.containers) }}
{{- $names := list }}
{{- range $spec.volumes }}
{{- $names = append $names .name }}
{{- end }}
{{- range $more.volumes }}
{{- if not (has .name $names) }}
{{- $_ := set $spec "volumes" (append $spec.volumes .) }}
{{- end }}
{{- end }}
{{- end }}
{{- $name := include "peermem-gate.name" (dict "root" .root "name" "peermem-gate-node") }}
{{- $_ := set $object.metadata "name" $name }}
{{- range list $object.metadata.labels $object.spec.selector.matchLabels $object.spec.template.metadata.labels }}
{{- $_ := set . "app.kubernetes.io/name" $name }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}

{{/* A report is wanted from every node with a GPU. */}}
{{- define "peermem-gate.report-beside" -}}
{{- $_ := unset .spec.nodeSelector "feature.node.kubernetes.io/pci-15b3.present" }}
{{- $_ := set .spec "nodeSelector" (merge .more.nodeSelector .spec.nodeSelector) }}
{{- end }}

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

{{/* How driver pods get the gate: v1, v1beta1 or none. `auto` is the version that the cluster has. The kind is asked for,
     because every cluster has these two versions of the group, for other kinds. */}}
{{- define "peermem-gate.admission" -}}
{{- $versions := .Capabilities.APIVersions }}
{{- if ne .Values.admission "auto" }}
{{- .Values.admission }}
{{- else if $versions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- print "v1" }}
{{- else if $versions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" }}
{{- print "v1beta1" }}
{{- else }}
{{- print "none" }}
{{- end }}
{{- end }}

{{/* Refuses what an earlier chart had and this chart has not, with the name of what takes its place. */}}
{{- define "peermem-gate.renamed" -}}
{{- $old := dict
  "hostDriver" "keeper.enabled, which is on by default, does its work. With MOFED or the driver on the host nothing more is to be set"
  "keep" "keeper.enabled, which is on by default, does its work as a DaemonSet" }}
{{- range $name, $new := $old }}
{{- if (index $.Values $name | default dict).enabled }}
{{- fail (printf "%s.enabled is gone: %s. Leave %s out of your values" $name $new $name) }}
{{- end }}
{{- end }}
{{- if .Values.pool }}
{{- fail "pool is gone: the node checks find out what each node wants. With MOFED or the RDMA modules on the host set hostMofed=true. Leave pool out of your values" }}
{{- end }}
{{- if .Values.imageVolume }}
{{- fail "imageVolume is gone: an init container fills the volume on every Kubernetes. Leave imageVolume out of your values" }}
{{- end }}
{{- if eq .Values.admission "kyverno" }}
{{- fail "admission=kyverno is gone: the keeper needs no admission, and the gate goes in front of driver-manager (docs/integration.md). Set admission=auto" }}
{{- end }}
{{- end }}

{{/* Fails where a value is missing or does not go with another. Helm drops null before the schema is asked, and
     --skip-schema-validation does not ask it: nothing may be rendered as '<nil>', or as an empty option. */}}
{{- define "peermem-gate.check" -}}
{{- if not (.Files.Get "manifests/admission/policy.yaml") }}
{{- fail "this copy of the chart has no manifests: a link of the checkout was left out. Use the chart of a release (oci://ghcr.io/peermem-gate/charts/peermem-gate), or copy charts/peermem-gate with its links resolved (cp -rL)" }}
{{- end }}
{{- range $path := list
  "image.repository" "image.tag" "image.digest" "keeper.enabled" "keeper.resources"
  "namespace" "openshift" "hostMofed" "admission" "timeout" "dryRun" "nvlink5"
  "wrapper.enabled" "wrapper.timeout" "shim.enabled" "shim.timeout" "heal"
  "imagePullSecrets" "priorityClassName" "tolerations"
  "npd.enabled" "npd.resources" "npd.image.repository" "npd.image.tag" "npd.image.digest"
  "readiness.enabled" "readiness.dryRun" "nfd.enabled" "nfd.resources"
  "textfile.enabled" "textfile.directory" "textfile.resources"
  "shell.image.repository" "shell.image.tag" "shell.image.digest"
  "doctor.enabled" "doctor.resources" "doctor.image.repository" "doctor.image.tag" "doctor.image.digest"
  "alerts.enabled" "dashboard.enabled" }}
{{- $value := $.Values }}
{{- range splitList "." $path }}
{{- $value = index ($value | default dict) . }}
{{- end }}
{{- if kindIs "invalid" $value }}
{{- fail (printf "%s is not set: give it a value, or leave it out for its default" $path) }}
{{- end }}
{{- if and (hasSuffix "timeout" $path) (not (regexMatch "^([0-9]+(ms|s|m|h)|none)$" (toString $value))) }}
{{- fail (printf "%s is %q: it must be a number and a unit (ms, s, m, h), or none" $path (toString $value)) }}
{{- end }}
{{- end }}
{{- if and .Values.doctor.enabled (regexMatch "^[0-9]+[.][0-9]+[.][0-9]+$" (toString .Values.doctor.image.tag)) }}
{{- if semverCompare "<0.3" (toString .Values.doctor.image.tag) }}
{{- fail (printf "doctor.image.tag is %s: this chart needs peermem-doctor 0.3 or later. Set it, too, when you upgrade" .Values.doctor.image.tag) }}
{{- end }}
{{- end }}
{{- if not (hasPrefix "/" .Values.textfile.directory) }}
{{- fail (printf "textfile.directory is %q: it must be an absolute path" .Values.textfile.directory) }}
{{- end }}
{{- include "peermem-gate.renamed" . }}
{{- $versions := .Capabilities.APIVersions }}
{{- $kind := printf "admissionregistration.k8s.io/%s/MutatingAdmissionPolicy" .Values.admission }}
{{- if and (has .Values.admission (list "v1" "v1beta1")) ($versions.Has "v1/Pod") (not ($versions.Has $kind)) }}
{{- fail (printf "admission=%s: this cluster (Kubernetes %s) has no %s. Set admission=auto" .Values.admission .Capabilities.KubeVersion.Version $kind) }}
{{- end }}
{{- end }}

{{/* The first Kubernetes that may serve the policies as they are rendered, if this one is older. */}}
{{- define "peermem-gate.needs" -}}
{{- $first := dict "v1" "1.36" "v1beta1" "1.34" "none" "1.27" }}
{{- $needs := get $first (include "peermem-gate.admission" .) }}
{{- if semverCompare (printf "<%s.0-0" $needs) .Capabilities.KubeVersion.Version }}
{{- $needs }}
{{- end }}
{{- end }}

{{/* Adds to an object's labels whose release it is. Takes root and object. */}}
{{- define "peermem-gate.label" -}}
{{- $labels := dict
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set .object.metadata "labels" (merge $labels (.object.metadata.labels | default dict)) }}
{{- end }}

{{/* An image's tag, or the first digits of its digest, as the value of a label: at most 63 characters. */}}
{{- define "peermem-gate.version" -}}
{{- regexReplaceAll "[^A-Za-z0-9._-]" (.tag | default (trunc 19 .digest)) "_" | trunc 63 | trimAll "-_." }}
{{- end }}

{{/* One of ../manifests/PART/kustomization.yaml's objects as kustomize and the settings make it. Takes root, object,
     part (the name of its values) and version. */}}
{{- define "peermem-gate.object" -}}
{{- $root := .root }}
{{- $object := .object }}
{{- $labels := dict "app.kubernetes.io/version" .version }}
{{- if not (has $object.kind (list "ClusterRoleBinding" "NodeReadinessRule")) }}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- if ne $object.kind "NodeReadinessRule" }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
{{- end }}
{{- include "peermem-gate.label" . }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end }}
{{- if eq $object.kind "DaemonSet" }}
{{- include "peermem-gate.daemonset" (merge (dict "labels" $labels) .) }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}

{{/* A DaemonSet's images, labels, SELinux type and settings of the cluster, set in place. */}}
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
{{- range $name := list "imagePullSecrets" "priorityClassName" "tolerations" }}
{{- with index $root.Values $name }}
{{- $_ := set $template.spec $name . }}
{{- end }}
{{- end }}
{{- if semverCompare "<1.30.0-0" $root.Capabilities.KubeVersion.Version }}
{{- /* The field is new there. */}}
{{- $annotations := dict }}
{{- range $container := $template.spec.containers }}
{{- if $container.securityContext.appArmorProfile }}
{{- $_ := unset $container.securityContext "appArmorProfile" }}
{{- $_ := set $annotations (print "container.apparmor.security.beta.kubernetes.io/" $container.name) "unconfined" }}
{{- end }}
{{- end }}
{{- if $annotations }}
{{- $_ := set $template.metadata "annotations" $annotations }}
{{- end }}
{{- end }}
{{- with (index $root.Values .part).resources }}
{{- $_ := set (first $template.spec.containers) "resources" . }}
{{- end }}
{{- range $template.spec.volumes }}
{{- if eq .name "textfile" }}
{{- $_ := set .hostPath "path" $root.Values.textfile.directory }}
{{- end }}
{{- end }}
{{- if $root.Values.openshift }}
{{- $_ := set $template.spec "securityContext" (dict "seLinuxOptions" (dict "type" "spc_t")) }}
{{- if eq .part "keeper" }}
{{- /* As ../manifests/components/openshift. */}}
{{- $container := first $template.spec.containers }}
{{- $mount := dict "name" "pods" "mountPath" "/host/var/lib/kubelet/pods" "mountPropagation" "HostToContainer" }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) }}
{{- $volume := dict "name" "pods" "hostPath" (dict "path" "/var/lib/kubelet/pods" "type" "DirectoryOrCreate") }}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes $volume) }}
{{- end }}
{{- end }}
{{- if $root.Values.hostMofed }}
{{- $container := first $template.spec.containers }}
{{- $_ := set $container "env" (append $container.env (dict "name" "USE_HOST_MOFED" "value" "true")) }}
{{- end }}
{{- end }}

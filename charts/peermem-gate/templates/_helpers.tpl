{{/* What the names of the objects begin with. */}}
{{- define "peermem-gate.fullname" -}}
{{ .Values.fullnameOverride | default .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* A name of the manifests as this release has it. Takes root and name. */}}
{{- define "peermem-gate.name" -}}
{{- $fullname := include "peermem-gate.fullname" .root }}
{{- if or (eq $fullname "peermem-gate") (not (hasPrefix "peermem-" .name)) -}}
{{ .name }}
{{- else -}}
{{ regexReplaceAll "^peermem-(gate)?-?" .name (print $fullname "-") | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The ServiceAccount of all pods but node-problem-detector's. */}}
{{- define "peermem-gate.account" -}}
{{ .Values.serviceAccount.name | default (ternary (include "peermem-gate.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* An image's name; fails where it is not set. Takes root, name and image. */}}
{{- define "peermem-gate.image" -}}
{{- $repository := required (printf "%s.repository is not set: add --set %s.repository=REGISTRY/NAME" .name .name) .image.repository }}
{{- with .root.Values.image.registry }}
{{- $parts := splitList "/" $repository }}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) }}
{{- $repository = join "/" (rest $parts) }}
{{- end }}
{{- $repository = print (trimSuffix "/" .) "/" $repository }}
{{- end }}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Refuses what an earlier chart had and this chart has not, with the name of what takes its place. What is done
     without a value now, or asked for nothing, is no refusal. */}}
{{- define "peermem-gate.renamed" -}}
{{- $values := .Values }}
{{- $of := dict }}
{{- range $name := list "wrapper" "shim" "textfile" "hostDriver" "keep" }}
{{- $_ := set $of (print $name ".enabled") (index (index $values $name | default dict) "enabled") }}
{{- end }}
{{- range $name := list "admission" "namespace" "timeout" "dryRun" "nvlink5" "hostMofed" "pool" "imageVolume" }}
{{- $_ := set $of $name (index $values $name) }}
{{- end }}
{{- $_ := set $of "textfile.directory" (index ($values.textfile | default dict) "directory") }}
{{- if has $values.admission (list "auto" "none") }}
{{- $_ := unset $of "admission" }}
{{- end }}
{{- $new := dict
  "admission" "The keeper needs no admission. wait.enabled=true puts the gate into new driver pods, on Kubernetes 1.36"
  "namespace" "Set wait.namespaces, which has the GPU Operator's two by default"
  "timeout" "Set wait.timeout"
  "dryRun" "Set keeper.dryRun, and for the init container wait.dryRun"
  "nvlink5" "Set wait.enabled=true: the gate asks each node who needs MOFED"
  "hostMofed" "The keeper finds out by itself, after five minutes. To save them set extraEnv=[{name: USE_HOST_MOFED, value: \"true\"}]"
  "wrapper.enabled" "Apply manifests/wait/wrapper.yaml, if you need it beside the keeper"
  "shim.enabled" "Apply manifests/wait/shim.yaml, if you need it beside the keeper"
  "textfile.enabled" "The keeper writes its metrics by itself"
  "textfile.directory" "Set metrics.directory"
  "hostDriver.enabled" "keeper.enabled, which is on by default, does its work"
  "keep.enabled" "keeper.enabled, which is on by default, does its work as a DaemonSet"
  "pool" "Nothing is to be set: each node is asked"
  "imageVolume" "Nothing is to be set" }}
{{- range $name, $value := $of }}
{{- if $value }}
{{- fail (printf "%s is gone. %s. Leave %s out of your values" $name (get $new $name) $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails where a value is missing or does not go with another. Helm drops null before the schema is asked, and
     --skip-schema-validation does not ask it: nothing may be rendered as '<nil>', or as an empty option. */}}
{{- define "peermem-gate.check" -}}
{{- if not (.Files.Get "manifests/keeper/daemonset.yaml") }}
{{- fail "this copy of the chart has no manifests: a link of the checkout was left out. Use the chart of a release (oci://ghcr.io/peermem-gate/charts/peermem-gate), or copy charts/peermem-gate with its links resolved (cp -rL)" }}
{{- end }}
{{- include "peermem-gate.renamed" . }}
{{- range $path := list
  "image.registry" "image.repository" "image.tag" "image.digest" "image.pullPolicy"
  "keeper.enabled" "keeper.dryRun" "keeper.nodeSelector" "keeper.affinity" "keeper.updateStrategy" "keeper.extraArgs" "keeper.signing.secretName"
  "keeper.resources" "wait.enabled" "wait.timeout" "wait.dryRun" "wait.namespaces"
  "nameOverride" "fullnameOverride" "commonLabels" "podLabels" "podAnnotations" "imagePullSecrets" "priorityClassName"
  "tolerations" "extraEnv" "logFormat" "logLevel" "test.node"
  "serviceAccount.create" "serviceAccount.name" "serviceAccount.annotations"
  "metrics.enabled" "metrics.directory" "metrics.port" "metrics.resources"
  "metrics.image.repository" "metrics.image.tag" "metrics.image.digest"
  "metrics.podMonitor.enabled" "metrics.podMonitor.labels" "metrics.podMonitor.interval" "metrics.networkPolicy.enabled"
  "alerts.enabled" "alerts.labels" "dashboard.enabled"
  "npd.enabled" "npd.resources" "npd.image.repository" "npd.image.tag" "npd.image.digest"
  "readiness.enabled" "readiness.dryRun" "nfd.enabled" "nfd.resources"
  "shell.image.repository" "shell.image.tag" "shell.image.digest"
  "doctor.enabled" "doctor.resources" "doctor.image.repository" "doctor.image.tag" "doctor.image.digest" }}
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
{{- range $name, $image := dict "image" .Values.image "doctor.image" .Values.doctor.image }}
{{- if regexMatch "^[0-9]+[.][0-9]+[.][0-9]+$" (toString $image.tag) }}
{{- if semverCompare "<0.4" (toString $image.tag) }}
{{- fail (printf "%s.tag is %s: this chart needs 0.4 or later. Leave it out of your values, or set it, too, when you upgrade" $name $image.tag) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not (hasPrefix "/" .Values.metrics.directory) }}
{{- fail (printf "metrics.directory is %q: it must be an absolute path" .Values.metrics.directory) }}
{{- end }}
{{- $versions := .Capabilities.APIVersions }}
{{- $kind := "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- if and .Values.wait.enabled ($versions.Has "v1/Pod") (not ($versions.Has $kind)) }}
{{- fail (printf "wait.enabled needs %s, which Kubernetes has since 1.36, and this cluster (Kubernetes %s) has not: leave it out, because the keeper needs no admission" $kind .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}

{{/* Adds to an object's labels whose release it is. Takes root and object. */}}
{{- define "peermem-gate.label" -}}
{{- $labels := dict
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set .object.metadata "labels" (merge $labels (.object.metadata.labels | default dict) .root.Values.commonLabels) }}
{{- end }}

{{/* An image's tag, or the first digits of its digest, as the value of a label: at most 63 characters. Takes root and
     image. */}}
{{- define "peermem-gate.version" -}}
{{- $tag := .image.tag | default (trunc 19 .image.digest) | default .root.Chart.AppVersion }}
{{- regexReplaceAll "[^A-Za-z0-9._-]" $tag "_" | trunc 63 | trimAll "-_." }}
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
{{- $_ := set $object.metadata "labels" (merge (dict) $labels ($object.metadata.labels | default dict)) }}
{{- end }}
{{- $_ := set $object.metadata "name" (include "peermem-gate.name" (dict "root" $root "name" $object.metadata.name)) }}
{{- include "peermem-gate.label" . }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- $_ := set . "name" (include "peermem-gate.name" (dict "root" $root "name" .name)) }}
{{- end }}
{{- if eq $object.kind "DaemonSet" }}
{{- include "peermem-gate.daemonset" (merge (dict "labels" $labels) .) }}
{{- if eq .part "keeper" }}
{{- include "peermem-gate.keeper" . }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}

{{/* A DaemonSet's images, labels and settings of the cluster, set in place. */}}
{{- define "peermem-gate.daemonset" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $template := .object.spec.template }}
{{- range list .object.metadata.labels .object.spec.selector.matchLabels $template.metadata.labels }}
{{- $name := index . "app.kubernetes.io/name" }}
{{- $_ := set . "app.kubernetes.io/name" (include "peermem-gate.name" (dict "root" $root "name" $name)) }}
{{- end }}
{{- $_ := set $template.metadata "labels" (merge (dict) .labels $template.metadata.labels $values.podLabels $values.commonLabels) }}
{{- $annotations := deepCopy $values.podAnnotations }}
{{- range concat ($template.spec.initContainers | default list) $template.spec.containers }}
{{- $name := first (splitList ":" .image) }}
{{- $image := dict "root" $root "name" "image" "image" $values.image }}
{{- if eq $name "node-problem-detector" }}
{{- $image = dict "root" $root "name" "npd.image" "image" $values.npd.image }}
{{- else if eq $name "peermem-doctor" }}
{{- $image = dict "root" $root "name" "doctor.image" "image" $values.doctor.image }}
{{- else if eq $name "busybox" }}
{{- $image = dict "root" $root "name" "shell.image" "image" $values.shell.image }}
{{- end }}
{{- $_ := set . "image" (include "peermem-gate.image" $image) }}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy }}
{{- end }}
{{- range $name := list "imagePullSecrets" "priorityClassName" "tolerations" }}
{{- with index $values $name }}
{{- $_ := set $template.spec $name . }}
{{- end }}
{{- end }}
{{- with $template.spec.serviceAccountName }}
{{- $_ := set $template.spec "serviceAccountName" (include "peermem-gate.name" (dict "root" $root "name" .)) }}
{{- else }}
{{- $_ := set $template.spec "serviceAccountName" (include "peermem-gate.account" $root) }}
{{- end }}
{{- range $template.spec.volumes }}
{{- if .configMap }}
{{- $_ := set .configMap "name" (include "peermem-gate.name" (dict "root" $root "name" .configMap.name)) }}
{{- end }}
{{- end }}
{{- if semverCompare "<1.30.0-0" $root.Capabilities.KubeVersion.Version }}
{{- /* The field is new there. */}}
{{- range $container := $template.spec.containers }}
{{- if $container.securityContext.appArmorProfile }}
{{- $_ := unset $container.securityContext "appArmorProfile" }}
{{- $_ := set $annotations (print "container.apparmor.security.beta.kubernetes.io/" $container.name) "unconfined" }}
{{- end }}
{{- end }}
{{- end }}
{{- if $annotations }}
{{- $_ := set $template.metadata "annotations" (merge $annotations ($template.metadata.annotations | default dict)) }}
{{- end }}
{{- $container := first $template.spec.containers }}
{{- with (index $values .part).resources }}
{{- $_ := set $container "resources" . }}
{{- end }}
{{- $env := concat ($container.env | default list) $values.extraEnv }}
{{- if has .part (list "keeper" "doctor") }}
{{- range $name, $setting := dict "LOG_FORMAT" (list $values.logFormat "text") "LOG_LEVEL" (list $values.logLevel "info") }}
{{- if ne (first $setting) (last $setting) }}
{{- $env = append $env (dict "name" (print "PEERMEM_GATE_" $name) "value" (first $setting)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set $container "env" $env }}
{{- end }}

{{/* What only the keeper has. */}}
{{- define "peermem-gate.keeper" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $spec := .object.spec.template.spec }}
{{- $container := first $spec.containers }}
{{- with $values.keeper.updateStrategy }}
{{- $_ := set $.object.spec "updateStrategy" . }}
{{- end }}
{{- range $name := list "nodeSelector" "affinity" }}
{{- with index $values.keeper $name }}
{{- $_ := set $spec $name . }}
{{- end }}
{{- end }}
{{- $signing := "/etc/peermem-gate/signing" }}
{{- $secret := $values.keeper.signing.secretName }}
{{- $signs := ternary (list (print "--signing=" $signing)) list (ne $secret "") }}
{{- $args := concat $container.args $signs (ternary (list "--dry-run") list $values.keeper.dryRun) $values.keeper.extraArgs }}
{{- $_ := set $container "args" $args }}
{{- $volumes := list }}
{{- if $secret }}
{{- $volumes = append $volumes (dict "name" "signing" "secret" (dict "secretName" $secret "defaultMode" 256)) }}
{{- $mount := dict "name" "signing" "mountPath" $signing "readOnly" true }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) }}
{{- end }}
{{- range $spec.volumes }}
{{- if and (eq .name "textfile") $values.metrics.enabled }}
{{- $volumes = append $volumes (dict "name" "textfile" "emptyDir" (dict "sizeLimit" "16Mi")) }}
{{- else }}
{{- if eq .name "textfile" }}
{{- $_ := set .hostPath "path" $values.metrics.directory }}
{{- end }}
{{- $volumes = append $volumes . }}
{{- end }}
{{- end }}
{{- $_ := set $spec "volumes" $volumes }}
{{- if $values.metrics.enabled }}
{{- $exporter := fromYaml (include "peermem-gate.exporter" $root) }}
{{- $_ := set $spec "containers" (append $spec.containers $exporter) }}
{{- end }}
{{- end }}

{{/* node_exporter's textfile collector alone, over the keeper's file. */}}
{{- define "peermem-gate.exporter" -}}
name: metrics
image: {{ include "peermem-gate.image" (dict "root" . "name" "metrics.image" "image" .Values.metrics.image) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - --collector.disable-defaults
  - --collector.textfile
  - --collector.textfile.directory=/metrics
  - --web.disable-exporter-metrics
  - --web.listen-address=:{{ .Values.metrics.port }}
ports:
  - name: metrics
    containerPort: {{ .Values.metrics.port }}
volumeMounts:
  - name: textfile
    mountPath: /metrics
    readOnly: true
resources:
{{- with .Values.metrics.resources }}
{{ toYaml . | indent 2 }}
{{- else }}
  requests: {cpu: 10m, memory: 24Mi}
  limits: {memory: 64Mi}
{{- end }}
securityContext:
  runAsUser: 65534
  runAsGroup: 65534
  runAsNonRoot: true
  privileged: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
  seLinuxOptions: {type: container_t}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{- define "cinch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Names have 50 characters at most, so that a zone's name fits behind them. */ -}}
{{- define "cinch.fullname" -}}
{{- $name := include "cinch.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "cinch.selector" -}}
app.kubernetes.io/name: {{ include "cinch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cinch.labels" -}}
{{ include "cinch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "cinch.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "cinch.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The image; a zone may have a tag of its own: (dict "top" . "tag" "v0.1.1"). */ -}}
{{- define "cinch.image" -}}
{{- $image := .top.Values.image }}
{{- if and $image.digest (not .tag) }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (.tag | default $image.tag | default (printf "v%s" .top.Chart.AppVersion)) }}
{{- end }}
{{- end }}

{{- define "cinch.grace" -}}
{{- $delay := ternary 0 .Values.drain.delaySeconds (eq .Values.topology "sidecar") }}
{{- add $delay .Values.drain.timeoutSeconds 5 }}
{{- end }}

{{- /* cinch.yaml: what the chart knows, and over it what `config` says. */ -}}
{{- define "cinch.config" -}}
{{- $delay := ternary 0 .Values.drain.delaySeconds (eq .Values.topology "sidecar") }}
{{- $admin := dict "listen" (printf ":%v" .Values.admin.port) "ready" "any" }}
{{- if .Values.admin.tokenSecret }}
{{- $_ := set $admin "token_file" "/secrets/admin/token" }}
{{- end }}
{{- $own := dict "admin" $admin
    "memory" (dict "budget" (ternary "64MiB" "256MiB" (eq .Values.topology "sidecar")))
    "log" (dict "format" "json")
    "drain_delay" (printf "%vs" $delay)
    "drain_timeout" (printf "%vs" .Values.drain.timeoutSeconds)
    "drain_grace" (printf "%vs" .Values.drain.graceSeconds) }}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) }}
{{- end }}

{{- /* A configuration that can't work in pods is refused here, and not by pods that crash. */ -}}
{{- define "cinch.check" -}}
{{- if not .Values.config.gateways }}
{{- fail "\n\nconfig.gateways is empty. Name at least one, for example:\n\nconfig:\n  gateways:\n    - name: cache\n      protocol: redis\n      listen: \":6380\"\n      upstream: redis://redis:6379\n      rules: [{name: all, setting: zstd-3, dictionary: auto}]\n" }}
{{- end }}
{{- range $i, $g := .Values.config.gateways }}
{{- $listen := toString $g.listen }}
{{- if and (ne $.Values.topology "sidecar") (or (hasPrefix "unix:" $listen) (regexMatch "^(127\\.|localhost:|\\[::1\\])" $listen)) }}
{{- fail (printf "config.gateways[%d].listen is %s, where other pods can't reach it: write \":PORT\"" $i $listen) }}
{{- end }}
{{- if and (eq $.Values.configAs "ConfigMap") (regexMatch "://[^/@]*:[^/@]+@|_password=" (toString $g.upstream)) }}
{{- fail (printf "config.gateways[%d].upstream holds a password, and a ConfigMap is no place for one: use passwordSecret, or configAs: Secret" $i) }}
{{- end }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.admin.tokenSecret) (not .Values.serviceMonitor.tlsConfig) }}
{{- fail "serviceMonitor needs admin.tokenSecret (kubectl create secret generic cinch-admin --from-literal=token=$(openssl rand -hex 32)), or config.admin.tls and serviceMonitor.tlsConfig with a client certificate: /metrics answers nobody else" }}
{{- end }}
{{- range $verb := list "pack" "verify" "unpack" }}
{{- $o := index $.Values $verb }}
{{- if $o.enabled }}
{{- $stores := include "cinch.stores" (dict "top" $ "names" $o.gateways) | fromYaml }}
{{- range $name := $o.gateways }}
{{- if not (hasKey $stores $name) }}
{{- fail (printf "%s.gateways names %s: config.gateways has no such gateway for Redis or Tarantool" $verb $name) }}
{{- end }}
{{- end }}
{{- if not $stores }}
{{- fail (printf "%s.enabled: config.gateways has no gateway for Redis or Tarantool" $verb) }}
{{- end }}
{{- range $name, $enabled := $stores }}
{{- if and (eq $verb "unpack") $enabled }}
{{- fail (printf "unpack: gateway %s would compress again what clients write: set enabled: false in its config first" $name) }}
{{- end }}
{{- if and (eq $verb "pack") (not $enabled) }}
{{- fail (printf "pack: gateway %s has enabled: false, so there is nothing to pack" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (eq .Values.topology "sidecar") }}
{{- fail "networkPolicy: a sidecar shares the network of its application's pod, whose own policies apply; docs/KUBERNETES.md says what they have to allow" }}
{{- end }}
{{- end }}

{{- /* Gateways of stores by name, each with its `enabled`: (dict "top" . "names" (list "cache")). No names: all. */ -}}
{{- define "cinch.stores" -}}
{{- $stores := dict }}
{{- range .top.Values.config.gateways }}
{{- if and (has .protocol (list "redis" "tarantool")) (or (not $.names) (has .name $.names)) }}
{{- $_ := set $stores .name (ne (toString .enabled) "false") }}
{{- end }}
{{- end }}
{{- toYaml $stores }}
{{- end }}

{{- /* Whether there are Jobs: "true", or nothing. */ -}}
{{- define "cinch.hasJobs" -}}
{{- if or .Values.pack.enabled .Values.verify.enabled .Values.unpack.enabled }}true{{ end }}
{{- end }}

{{- /* Of the pods of Jobs. They must not match cinch.selector, or Services would lead clients there. */ -}}
{{- define "cinch.jobSelector" -}}
app.kubernetes.io/name: {{ include "cinch.name" . }}-job
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Where clients connect: a list of {name, port, protocol} in `ports`. Clusters take the ports behind the first one. */ -}}
{{- define "cinch.ports" -}}
{{- $ports := list }}
{{- range .Values.config.gateways }}
{{- $name := .name | lower | replace "_" "-" | replace "." "-" | trunc 50 | trimSuffix "-" }}
{{- $first := regexFind "[0-9]+$" (toString .listen) }}
{{- if and $first (not (hasPrefix "unix:" (toString .listen))) }}
{{- $ports = append $ports (dict "name" $name "port" (atoi $first) "protocol" .protocol "tls" (not (empty .tls))) }}
{{- if regexMatch "^redis(s)?\\+" (toString .upstream) }}
{{- range $i := untilStep 1 (int (add1 (default 32 .nodes))) 1 }}
{{- $ports = append $ports (dict "name" (printf "%s-%d" $name $i) "port" (int (add (atoi $first) $i)) "protocol" "redis" "tls" false) }}
{{- end }}
{{- end }}
{{- with regexFind "[0-9]+$" (toString (default "" .sentinel)) }}
{{- $ports = append $ports (dict "name" (printf "%s-sentinel" $name) "port" (atoi .) "protocol" "redis" "tls" false) }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "ports" $ports | toYaml }}
{{- end }}

{{- define "cinch.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .top.Values.admin.port }}
  {{- if dig "admin" "tls" nil .top.Values.config }}
  scheme: HTTPS
  {{- end }}
{{- end }}

{{- /* A gateway's container: (dict "top" . "tag" "" "sidecar" false). */ -}}
{{- define "cinch.container" -}}
{{- $top := .top }}
name: cinch
image: {{ include "cinch.image" . | quote }}
imagePullPolicy: {{ $top.Values.image.pullPolicy }}
{{- if .sidecar }}
# Starts before the application and ends after it.
restartPolicy: Always
{{- end }}
args: [serve, --config, /etc/cinch/cinch.yaml]
{{- with include "cinch.env" $top }}
{{ . }}
{{- end }}
ports:
  {{- range (include "cinch.ports" $top | fromYaml).ports }}
  - containerPort: {{ .port }}
  {{- end }}
  - name: cinch-admin
    containerPort: {{ $top.Values.admin.port }}
# It answers when all gateways listen. In a sidecar, the application starts then.
startupProbe:
  {{- include "cinch.probe" (dict "top" $top "path" "/healthz") | nindent 2 }}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  {{- include "cinch.probe" (dict "top" $top "path" "/healthz") | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  {{- $path := ternary "/healthz" "/readyz" (and .sidecar (eq $top.Values.sidecar.readiness "process")) }}
  {{- include "cinch.probe" (dict "top" $top "path" $path) | nindent 2 }}
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
resources:
  {{- ternary $top.Values.sidecar.resources $top.Values.resources .sidecar | toYaml | nindent 2 }}
securityContext:
  {{- toYaml $top.Values.securityContext | nindent 2 }}
volumeMounts:
  {{- include "cinch.mounts" (dict "top" $top "sidecar" .sidecar) | nindent 2 }}
{{- end }}

{{- define "cinch.env" -}}
{{- if or .Values.passwordSecret .Values.extraEnv -}}
env:
  {{- if .Values.passwordSecret }}
  - name: CINCH_PASSWORD_FILE
    value: /secrets/passwords/passwords
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "cinch.mounts" -}}
- name: cinch-config
  mountPath: /etc/cinch
  readOnly: true
{{- if .sidecar }}
- name: cinch-sockets
  mountPath: /run/cinch
{{- end }}
{{- range $dir, $secret := include "cinch.secrets" .top | fromYaml }}
- name: cinch-secret-{{ $dir }}
  mountPath: /secrets/{{ $dir }}
  readOnly: true
{{- end }}
{{- with .top.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Secrets by directory. */ -}}
{{- define "cinch.secrets" -}}
{{- $all := deepCopy .Values.secrets }}
{{- with .Values.admin.tokenSecret }}
{{- $_ := set $all "admin" . }}
{{- end }}
{{- with .Values.passwordSecret }}
{{- $_ := set $all "passwords" . }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "cinch.volumes" -}}
- name: cinch-config
  {{- if eq .Values.configAs "Secret" }}
  secret:
    secretName: {{ include "cinch.fullname" . }}
    defaultMode: 0440
  {{- else }}
  configMap:
    name: {{ include "cinch.fullname" . }}
  {{- end }}
{{- range $dir, $secret := include "cinch.secrets" . | fromYaml }}
- name: cinch-secret-{{ $dir }}
  secret:
    secretName: {{ $secret }}
    # The group is the pod's fsGroup. Cinch refuses passwords that everybody may read.
    defaultMode: 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "cinch.checksum" -}}
checksum/cinch-config: {{ include "cinch.config" . | sha256sum }}
{{- end }}

{{- /* The pod of a gateway: (dict "top" . "component" "gateway" "zone" "" "tag" ""). */ -}}
{{- define "cinch.pod" -}}
{{- $top := .top }}
metadata:
  labels:
    {{- include "cinch.labels" $top | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $top.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration is a new pod, by a drain of the old one.
    {{- include "cinch.checksum" $top | nindent 4 }}
    {{- with $top.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  # drain.delaySeconds, drain.timeoutSeconds, and 5. No preStop is needed: the process itself serves on for the delay.
  terminationGracePeriodSeconds: {{ include "cinch.grace" $top }}
  {{- include "cinch.podSpec" $top | nindent 2 }}
  {{- with $top.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with include "cinch.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- if eq $top.Values.topology "zones" }}
  topologySpreadConstraints:
    {{- range ternary (list "kubernetes.io/hostname") (list "topology.kubernetes.io/zone" "kubernetes.io/hostname") (not (empty .zone)) }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $top.Values.spread }}
      labelSelector:
        matchLabels:
          {{- include "cinch.selector" $top | nindent 10 }}
          app.kubernetes.io/component: {{ $.component }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  containers:
    - {{ include "cinch.container" (dict "top" $top "tag" .tag "sidecar" false) | trim | nindent 6 | trim }}
  volumes:
    {{- include "cinch.volumes" $top | nindent 4 }}
{{- end }}

{{- /* What pods of gateways and of Jobs have in common. */ -}}
{{- define "cinch.podSpec" -}}
serviceAccountName: {{ include "cinch.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* `affinity`, and the zone of a Deployment, which each of the terms has to name since one of them is enough. */ -}}
{{- define "cinch.affinity" -}}
{{- $affinity := deepCopy .top.Values.affinity }}
{{- if .zone }}
{{- $in := dict "key" "topology.kubernetes.io/zone" "operator" "In" "values" (list .zone) }}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list (dict)) $affinity }}
{{- $both := list }}
{{- range $terms }}
{{- $term := deepCopy . }}
{{- $both = append $both (set $term "matchExpressions" (append (default list $term.matchExpressions) $in)) }}
{{- end }}
{{- $required := dict "nodeSelectorTerms" $both }}
{{- $affinity = mergeOverwrite $affinity (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $required)) }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /*
For charts that have this one as a dependency, with topology: sidecar. In the pod template of an application:

  metadata:
    labels:
      {{- include "cinch.sidecar.labels" .Subcharts.cinch | nindent 8 }}
    annotations:
      {{- include "cinch.sidecar.annotations" .Subcharts.cinch | nindent 8 }}
  spec:
    securityContext: {fsGroup: 65532}
    initContainers:
      {{- include "cinch.sidecar.container" .Subcharts.cinch | nindent 8 }}
    containers:
      - volumeMounts:
          {{- include "cinch.sidecar.mounts" .Subcharts.cinch | nindent 12 }}
    volumes:
      {{- include "cinch.sidecar.volumes" .Subcharts.cinch | nindent 8 }}
*/ -}}
{{- define "cinch.sidecar.annotations" -}}
{{ include "cinch.checksum" . }}
{{- end }}

{{- /* By which the PodMonitor finds pods. */ -}}
{{- define "cinch.sidecar.labels" -}}
cinch-sidecar: {{ include "cinch.fullname" . }}
{{- end }}

{{- define "cinch.sidecar.container" -}}
- {{ include "cinch.container" (dict "top" . "tag" "" "sidecar" true) | trim | nindent 2 | trim }}
{{- end }}

{{- /* Of the application's container: for clients that connect to a socket. */ -}}
{{- define "cinch.sidecar.mounts" -}}
- name: cinch-sockets
  mountPath: /run/cinch
  readOnly: true
{{- end }}

{{- define "cinch.sidecar.volumes" -}}
- name: cinch-sockets
  emptyDir:
    sizeLimit: 1Mi
{{ include "cinch.volumes" . }}
{{- end }}

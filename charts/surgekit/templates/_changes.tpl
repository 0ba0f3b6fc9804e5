{{- /* Both change `object` and print nothing. */ -}}

{{- define "surgekit.settings" -}}
{{- range $process, $changes := .values.settings -}}
{{- if and $changes (hasPrefix (printf "surgekit-%s-settings-" $process) $.object.metadata.name) -}}
{{- $settings := mergeOverwrite (fromYaml (index $.object.data "settings.yaml")) $changes -}}
{{- $_ := set $.object.data "settings.yaml" (toYaml $settings) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "surgekit.pod" -}}
{{- $template := .object.spec.template -}}
{{- if eq .object.kind "CronJob" -}}
{{- $template = .object.spec.jobTemplate.spec.template -}}
{{- end -}}
{{- range $container := concat ($template.spec.initContainers | default list) $template.spec.containers -}}
{{- if hasPrefix "surgekit:" $container.image -}}
{{- $_ := set $container "image" (printf "%s:%s" $.values.image.repository $.values.image.tag) -}}
{{- end -}}
{{- end -}}
{{- range $secret := .values.imagePullSecrets -}}
{{- $_ := set $template.spec "imagePullSecrets" (append ($template.spec.imagePullSecrets | default list) (dict "name" $secret)) -}}
{{- end -}}
{{- $changes := get .values.settings (trimPrefix "surgekit-" .object.metadata.name) -}}
{{- if $changes -}}
{{- $annotation := dict "surgekit.dev/changed-settings" (toJson $changes | sha256sum) -}}
{{- $_ := set $template.metadata "annotations" (merge $annotation ($template.metadata.annotations | default dict)) -}}
{{- end -}}
{{- end -}}

"""Scales Knative revisions to their knee: the PodAutoscaler class knee.surgekit.dev."""

"""Knative's revisions at the knee: the PodAutoscaler class knee.surgekit.dev."""

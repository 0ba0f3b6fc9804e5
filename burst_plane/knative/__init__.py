"""Knative Services as targets: what they say, and what their stock autoscaler is told."""

"""Asks Prometheus, within a namespace and a time limit."""

"""Drives a running HAProxy."""

"""Escra's comparison: one workload, several ways to set limits."""

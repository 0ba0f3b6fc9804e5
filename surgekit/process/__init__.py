"""Runs a part as a process: ports, health, settings, logs."""

"""Escra: container limits that follow need, within one CPU period."""

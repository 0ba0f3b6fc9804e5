"""Variant `best`: node patterns instead of phases. See ../README.md."""

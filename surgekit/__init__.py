"""Plumbing shared by the surgekit parts, and the command line. No decision is made here."""

__version__ = "0.1.0"

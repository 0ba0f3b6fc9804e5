"""Plumbing shared by the surgekit parts, and the command line. No decision is made here."""

"""Serve the requests that no warm pod can take, beside an unchanged cluster manager (PulseNet)."""

"""Measure the parts against their baselines. May import parts and the lab; no part imports it."""

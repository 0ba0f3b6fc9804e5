"""How many replicas, and why. Pure: one call a sampling interval."""

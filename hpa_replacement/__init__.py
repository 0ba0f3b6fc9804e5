"""KneeScale: as many replicas as are worth their cost."""

"""KneeScale's comparison (IV-D, IV-E): cumulative performance under a replica budget, live and simulated."""

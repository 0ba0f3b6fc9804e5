"""FCMA's solver: which instance classes to rent for a workload, and which containers go on each node."""

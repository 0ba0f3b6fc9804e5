"""The expander against Cluster Autoscaler's own: simulated, and live where its binary is at hand."""

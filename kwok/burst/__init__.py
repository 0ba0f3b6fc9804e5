"""A machine's part of the burst plane without a cluster: containerd, a node agent, and functions to start."""

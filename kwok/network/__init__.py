"""The network of a lab with real nodes: a network namespace that holds the control plane and a bridge.

The user's machine keeps its links, routes, rules and sysctls. docs/decisions/lab-network.md says why.
"""

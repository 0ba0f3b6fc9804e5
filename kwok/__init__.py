"""The emulated lab: real control-plane binaries, KWOK nodes, and a model of node speeds.

A lab is a stock Kubernetes control plane as plain processes; only nodes and pods are emulated. The node
model (`kwok.node_model`) adds what KWOK lacks: pods created at the same time share their node's speed.
"""

"""The emulated lab: real control-plane binaries, KWOK nodes, and the model that makes them honest.

A lab is a stock Kubernetes control plane as plain processes; only nodes and pods are emulated. The
node model (`kwok.node_model`) gives nodes what KWOK does not: pods created at the same time share
their node's speed.
"""

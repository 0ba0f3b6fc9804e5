"""The live harness: real HAProxy, placement, agents and containers beside a real control plane.

(Being written by the helper `live`, beside the simulation of the helper `bench`.)
"""

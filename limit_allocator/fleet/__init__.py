"""All agents and applications as the controller sees them, and what it tells the agents. Pure.

model       what the cluster wants: applications and their pods
slots       one row a container, reserve or unknown node: arrays
agents      one agent: its stream, its keys, its pods
intake      an agent's report, checked
decisions   the limits of all containers, by equal parameters
view        what people are shown
fleet       all of it together
"""

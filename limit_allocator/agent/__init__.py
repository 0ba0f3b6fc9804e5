"""The node agent: finds the containers of opted-in pods, reports what they use, and writes their limits.

node_agent   one tick, one wait, and what orders do
container    one container that the agent looks after: its files, its limits in the pod's spec, its counts
discovery    which containers of the node belong to opted-in pods
outbox       what the next report has to say
starts       the agent's starts and the controller's terms, kept over a restart
node_memory  what the node can give before the kubelet evicts pods
metrics, settings, controller   the process
"""

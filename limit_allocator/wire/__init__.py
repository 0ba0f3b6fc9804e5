"""What agents and the controller say to each other, and the gRPC stream that carries it.

messages    the values, and their form on the wire
server      the controller's end
link        the agent's end
"""

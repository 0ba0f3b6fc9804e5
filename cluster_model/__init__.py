"""Nodes with their room, speed and prices, and the cost of a pod on each (eqs 6 to 9)."""

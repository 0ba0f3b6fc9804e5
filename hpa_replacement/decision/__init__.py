"""Decides how many replicas a function gets, and why. Pure: one call a sampling interval.

One sample through it: `decide` charges the budget, refuses unusable samples and builds the DecisionContext.
`searching` continues a search under way; otherwise `load_following` (variant best) or `algorithm2` (variant
paper) picks a known knee or begins a search. `forecast` says which part of a `budget` the next interval gets.
"""

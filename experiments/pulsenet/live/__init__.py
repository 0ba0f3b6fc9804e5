"""The live harness: real HAProxy, placement, node agent and containers beside a real control plane.

Each arm has a lab of its own. Regular instances are KWOK's pods behind the function model, emergency ones are
real containers of one node agent; a request's path says how long it takes on either.
"""

from experiments.pulsenet.live.bench import run
from experiments.pulsenet.live.plan import Plan

__all__ = ["Plan", "run"]

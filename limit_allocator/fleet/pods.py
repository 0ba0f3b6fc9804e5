"""Which pods each agent is told to look after."""

from __future__ import annotations

from limit_allocator.fleet.agents import Agent
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.wire.messages import Pod
from surgekit.process.modes import Mode

__all__ = ["pod_of", "tell", "tell_changed"]


def pod_of(uid: str, row: PodRow, application: Application) -> Pod | None:
    if application.mode is Mode.OFF:
        return None
    return Pod(
        uid=uid,
        application=application.name,
        growth_bytes=application.parameters.growth_bytes,
        enforce=application.mode is Mode.ENFORCE,
        burst=application.parameters.burst,
        ceilings=row.ceilings,
    )


def tell(agent: Agent, uid: str, pod: Pod | None, has_containers: bool) -> None:
    """From now on the agent looks after the pod so; None: not at all.

    A container belongs to one application in one mode as long as its agent knows it. So a pod whose
    application or mode changes first leaves the list, until its containers are gone.
    """
    told = agent.pods.get(uid)
    agent.changing.pop(uid, None)
    if pod == told:
        return
    agent.tell_pods = True
    agent.pods.pop(uid, None)
    if pod is None:
        return
    same = told is not None and (told.application, told.enforce) == (pod.application, pod.enforce)
    if has_containers and not same:
        agent.changing[uid] = pod
    else:
        agent.pods[uid] = pod


def tell_changed(agent: Agent, uids_with_containers: set[str]) -> None:
    for uid in [uid for uid in agent.changing if uid not in uids_with_containers]:
        agent.pods[uid] = agent.changing.pop(uid)
        agent.tell_pods = True

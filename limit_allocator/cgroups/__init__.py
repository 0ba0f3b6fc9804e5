"""The cgroups of a node's containers: find, read, limit, watch and restore them.

    layout          which containers are there
    container       one container's files: readings and limits; v1 and v2 implement it
    memory_events   containers that need memory now
    originals       the limits that were there before us, kept in a journal
    changes         where to look for them, and for new containers
    drift           limits that somebody else changed
    guard           a process that takes over when the agent is killed

Standard library only. Nothing here knows Kubernetes' API or the allocator.
"""

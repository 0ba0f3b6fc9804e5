"""The lab's edit of the load balancer's HAProxy configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from function_gateway.configuration import configuration
from function_gateway.settings import Settings
from kwok.errors import TrafficError
from kwok.traffic.balanced import dial_pods_in


def test_every_slot_dials_in_the_labs_namespace() -> None:
    written = configuration(Settings(directory=Path("/run/lb"), functions=2, slots=3))
    assert "namespace lab-1" not in written
    before, after = written.splitlines(), dial_pods_in("lab-1", written).splitlines()
    changed = [line for line in after if line not in before]
    assert [line.split()[1] for line in changed] == ["s0", "s1", "s2"] * 2
    assert all(line.endswith(" namespace lab-1") for line in changed)
    assert [line.removesuffix(" namespace lab-1") for line in after] == before


def test_a_configuration_without_servers_is_refused() -> None:
    with pytest.raises(TrafficError, match="slot"):
        dial_pods_in("lab-1", "global\n")

"""What metrics.k8s.io says, if it is there."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from combofunc.memory_use import MemoryUsePoll, read_use
from surgekit.kube.client import ApiError, Kube

Json = dict[str, Any]


def pod(name: str, *memory: object) -> Json:
    containers = [{"name": f"c{i}", "usage": {"cpu": "1m", "memory": m}} for i, m in enumerate(memory)]
    return {"metadata": {"name": name, "namespace": "shop"}, "containers": containers}


def test_all_containers_of_a_pod_together() -> None:
    listed = {"items": [pod("a", "100Mi", "28Mi"), pod("b", "1Gi"), pod("c", "?"), {"metadata": None}]}
    assert read_use(listed) == {"shop": {"a": 128 * 2**20, "b": 2**30}}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "containers", "usage", "memory", "name", "namespace"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=4))
def test_whatever_is_listed(items: list[Any]) -> None:
    assert read_use({"items": [*items, pod("a", "1Mi")]})["shop"]["a"] == 2**20


class Metrics(Kube):
    def __init__(self) -> None:
        self.served, self.asked = True, 0

    def get(self, path: str, **query: str | int | bool) -> Json:
        assert (path, query) == (
            "/apis/metrics.k8s.io/v1beta1/pods", {"labelSelector": "surgekit.dev/template"}
        )  # fmt: skip
        self.asked += 1
        if not self.served:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return {"items": [pod("a", "1Mi")]}


def test_where_it_is_not_served_nothing_is_known() -> None:
    kube = Metrics()
    leads = True
    poll = MemoryUsePoll(kube, lambda: leads)
    assert poll.of("shop") == {}
    poll.step()
    assert (poll.of("shop"), poll.of("other")) == ({"a": 2**20}, {})
    kube.served = False
    poll.step()
    assert poll.of("shop") == {}, "what was measured long ago is not believed"
    leads = False
    poll.step()
    assert kube.asked == 2, "only the replica that acts asks"

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.knative.config_autoscaler import read_config
from hpa_replacement.knative.pod_autoscaler import (
    CLASS,
    HPA_CLASS,
    PodAutoscalerError,
    follows_our_metric,
    is_ours,
    read,
)
from tests.hpa_replacement.knative.builders import (
    DEFAULT_HIGH,
    GROUP,
    KNATIVE_S_DEFAULTS,
    pod_autoscaler,
)


def test_the_class_is_not_among_those_knative_keeps_for_itself() -> None:
    assert not CLASS.endswith("knative.dev")
    assert is_ours(pod_autoscaler())
    assert not is_ours(pod_autoscaler(klass="kpa.autoscaling.knative.dev"))


@pytest.mark.parametrize(
    ("annotations", "spec", "low", "high", "initial", "awake_because"),
    [
        ({}, {}, 1, DEFAULT_HIGH, 1, ""),
        ({"min-scale": "0", "max-scale": "0"}, {}, 1, DEFAULT_HIGH, 1, ""),
        ({"min-scale": "3", "max-scale": "20"}, {}, 3, 20, 3, "min-scale is 3"),
        ({"minScale": "3", "maxScale": "20"}, {}, 3, 20, 3, "min-scale is 3"),
        ({"min-scale": "2", "minScale": "3"}, {}, 2, DEFAULT_HIGH, 2, "min-scale is 2"),
        ({"min-scale": "300"}, {}, 300, 300, 300, "min-scale is 300"),
        ({"initial-scale": "5"}, {}, 1, DEFAULT_HIGH, 5, ""),
        ({"initial-scale": "5", "max-scale": "4"}, {}, 1, 4, 4, ""),
        ({"initial-scale": "0"}, {}, 1, DEFAULT_HIGH, 1, ""),  # the cluster does not allow it
        ({"activation-scale": "3"}, {}, 3, DEFAULT_HIGH, 1, ""),
        ({"min-scale": "3", "max-scale": "20"}, {"reachability": "Reachable"}, 3, 20, 3, "min-scale is 3"),
        ({"min-scale": "3", "max-scale": "20"}, {"reachability": "Unreachable"}, 1, 1, 1, ""),
    ],
)
def test_bounds(
    annotations: dict[str, str], spec: dict[str, str], low: int, high: int, initial: int, awake_because: str
) -> None:
    pa = read(pod_autoscaler(annotations, **spec), DEFAULT_HIGH, KNATIVE_S_DEFAULTS)
    assert (pa.low, pa.high, pa.initial, pa.awake_because) == (low, high, initial, awake_because)


def test_annotations_come_before_the_clusters_config() -> None:
    config = read_config(
        {
            "enable-scale-to-zero": "false", "allow-zero-initial-scale": "true", "initial-scale": "2",
            "min-scale": "0", "max-scale": "30", "stable-window": "90s", "target-burst-capacity": "-1",
            "scale-to-zero-grace-period": "5s", "scale-to-zero-pod-retention-period": "1m",
        }
    )  # fmt: skip
    assert config.scale_to_zero_grace_period_s == 5.0
    pa = read(pod_autoscaler(), DEFAULT_HIGH, config)
    assert (pa.high, pa.initial, pa.window_s, pa.retention_s, pa.always_proxied) == (30, 2, 90.0, 60.0, True)
    assert pa.awake_because == "enable-scale-to-zero is false"
    annotations = {
        "max-scale": "7", "initial-scale": "0", "window": "10s", "target-burst-capacity": "0",
        "scale-to-zero-pod-retention-period": "0",
    }  # fmt: skip
    pa = read(pod_autoscaler(annotations), DEFAULT_HIGH, config)
    assert (pa.high, pa.initial, pa.window_s, pa.retention_s, pa.always_proxied) == (7, 0, 10.0, 0.0, False)


@given(
    st.dictionaries(
        st.sampled_from(["enable-scale-to-zero", "min-scale", "stable-window", "target-burst-capacity"]),
        st.one_of(st.text(max_size=9), st.none(), st.integers(), st.sampled_from(["-1", "1e400", "nan"])),
    )
)
def test_any_config_can_be_read(data: dict[str, Any]) -> None:
    config = read_config(data)
    assert config.min_scale >= 0
    assert config.stable_window_s >= 0


@pytest.mark.parametrize(
    ("annotations", "follows"),
    [
        ({"metric": "knee-replicas", "target": "1"}, True),
        ({"metric": "knee-replicas", "target": "2"}, False),  # its HPA would ask for half of the replicas
        ({"metric": "knee-replicas"}, False),
        ({"metric": "cpu", "target": "1"}, False),
    ],
)
def test_what_follows_our_metric(annotations: dict[str, str], follows: bool) -> None:
    assert follows_our_metric(pod_autoscaler(annotations, HPA_CLASS)) is follows
    assert not follows_our_metric(pod_autoscaler(annotations))


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"max-scale": "many"}, f"{GROUP}/max-scale: must be a whole number from 0 to 100000, is 'many'"),
        ({"min-scale": "-1"}, f"{GROUP}/min-scale: .* is '-1'"),
        ({"min-scale": "1.5"}, f"{GROUP}/min-scale: .* is '1.5'"),
        ({"min-scale": ""}, f"{GROUP}/min-scale: .* is ''"),
        ({"maxScale": "100001"}, f"{GROUP}/maxScale: .* is '100001'"),
        ({"initial-scale": "\N{ARABIC-INDIC DIGIT THREE}"}, f"{GROUP}/initial-scale: "),
        ({"window": "soon"}, f"{GROUP}/window: must be a duration such as 30s or 1m30s, is 'soon'"),
        ({"min-scale": "5", "max-scale": "4"}, r"max-scale: must be at least min-scale \(5\), is 4"),
    ],
)
def test_the_error_names_the_annotation(annotations: dict[str, str], message: str) -> None:
    with pytest.raises(PodAutoscalerError, match=message):
        read(pod_autoscaler(annotations), DEFAULT_HIGH, KNATIVE_S_DEFAULTS)


@pytest.mark.parametrize("value", [None, "../../victim/deployments/web"])
@pytest.mark.parametrize("field", ["apiVersion", "kind", "name"])
def test_the_error_names_the_field(field: str, value: str | None) -> None:
    obj = pod_autoscaler()
    obj["spec"]["scaleTargetRef"][field] = value
    with pytest.raises(PodAutoscalerError, match=rf"spec\.scaleTargetRef\.{field}: {value!r} is not valid"):
        read(obj, DEFAULT_HIGH, KNATIVE_S_DEFAULTS)

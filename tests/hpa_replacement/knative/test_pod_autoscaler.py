from __future__ import annotations

import pytest

from hpa_replacement.knative.pod_autoscaler import CLASS, PodAutoscalerError, is_ours, read
from tests.hpa_replacement.knative.builders import DEFAULT_HIGH, GROUP, pod_autoscaler


def test_the_class_is_not_among_those_knative_keeps_for_itself() -> None:
    assert not CLASS.endswith("knative.dev")
    assert is_ours(pod_autoscaler())
    assert not is_ours(pod_autoscaler(klass="kpa.autoscaling.knative.dev"))


@pytest.mark.parametrize(
    ("annotations", "spec", "low", "high", "initial", "allows_zero"),
    [
        ({}, {}, 1, DEFAULT_HIGH, 1, True),
        ({"min-scale": "0", "max-scale": "0"}, {}, 1, DEFAULT_HIGH, 1, True),
        ({"min-scale": "3", "max-scale": "20"}, {}, 3, 20, 3, False),
        ({"minScale": "3", "maxScale": "20"}, {}, 3, 20, 3, False),
        ({"min-scale": "2", "minScale": "3"}, {}, 2, DEFAULT_HIGH, 2, False),
        ({"min-scale": "300"}, {}, 300, 300, 300, False),
        ({"initial-scale": "5"}, {}, 1, DEFAULT_HIGH, 5, True),
        ({"initial-scale": "5", "max-scale": "4"}, {}, 1, 4, 4, True),
        ({"min-scale": "3", "max-scale": "20"}, {"reachability": "Reachable"}, 3, 20, 3, False),
        ({"min-scale": "3", "max-scale": "20"}, {"reachability": "Unreachable"}, 1, 1, 1, False),
    ],
)
def test_bounds(
    annotations: dict[str, str], spec: dict[str, str], low: int, high: int, initial: int, allows_zero: bool
) -> None:
    pa = read(pod_autoscaler(annotations, **spec), DEFAULT_HIGH)
    assert (pa.low, pa.high, pa.initial, pa.allows_zero) == (low, high, initial, allows_zero)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"max-scale": "many"}, f"{GROUP}/max-scale: must be a whole number from 0 to 100000, is 'many'"),
        ({"min-scale": "-1"}, f"{GROUP}/min-scale: .* is '-1'"),
        ({"min-scale": "1.5"}, f"{GROUP}/min-scale: .* is '1.5'"),
        ({"min-scale": ""}, f"{GROUP}/min-scale: .* is ''"),
        ({"maxScale": "100001"}, f"{GROUP}/maxScale: .* is '100001'"),
        ({"initial-scale": "\N{ARABIC-INDIC DIGIT THREE}"}, f"{GROUP}/initial-scale: "),
        ({"min-scale": "5", "max-scale": "4"}, r"max-scale: must be at least min-scale \(5\), is 4"),
    ],
)
def test_the_error_names_the_annotation(annotations: dict[str, str], message: str) -> None:
    with pytest.raises(PodAutoscalerError, match=message):
        read(pod_autoscaler(annotations), DEFAULT_HIGH)


@pytest.mark.parametrize("value", [None, "../../victim/deployments/web"])
@pytest.mark.parametrize("field", ["apiVersion", "kind", "name"])
def test_the_error_names_the_field(field: str, value: str | None) -> None:
    obj = pod_autoscaler()
    obj["spec"]["scaleTargetRef"][field] = value
    with pytest.raises(PodAutoscalerError, match=rf"spec\.scaleTargetRef\.{field}: {value!r} is not valid"):
        read(obj, DEFAULT_HIGH)

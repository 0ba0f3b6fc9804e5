"""The two applications: services that call each other, in shape like the paper's (section VI-A).

`media` composes a review as MediaMicroservice does: one request fans out to most services. `shop` is like
HipsterShop: what a request touches is drawn. Costs are ours: a request takes 2 to 3 ms of CPU time in all
besides HTTP's own, so that 1.5 times the peaks and the load generator fit two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["APPLICATIONS", "Application", "Service"]

Stage = Sequence[tuple[str, float]]  # services called together, each by a share of the requests


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    cpu_us: int  # mean CPU time of a request, log-normal
    base_mib: int
    request_kib: int = 128
    garbage_mib: int = 64  # of answered requests, given back together
    calls: tuple[Stage, ...] = ()

    def calls_by_port(self, ports: dict[str, int]) -> str:
        """As the service's -calls wants it."""
        return ";".join(",".join(f"{ports[name]}@{share:g}" for name, share in stage) for stage in self.calls)


@dataclass(frozen=True, slots=True)
class Application:
    name: str
    rate_per_s: float  # of the fixed load; the others are shares of it (`loads`)
    services: tuple[Service, ...]  # the first one is the door


MEDIA = Application(
    "media",
    100.0,
    (
        Service("front", 400, 40, calls=((("user", 1), ("movie", 1), ("text", 1)), (("compose", 1),))),
        Service("user", 300, 90),
        Service("movie", 400, 120, calls=((("rating", 0.7),),)),
        Service("text", 500, 60),
        Service("rating", 300, 70),
        Service("compose", 600, 80, request_kib=256, calls=((("storage", 1),),)),
        Service("storage", 700, 160, request_kib=256, garbage_mib=128),
    ),
)

SHOP = Application(
    "shop",
    130.0,
    (
        Service(
            "front",
            500,
            40,
            calls=(
                (("currency", 1), ("catalog", 1), ("cart", 0.6), ("ads", 0.5)),
                (("recommendation", 0.5), ("checkout", 0.15)),
            ),
        ),
        Service("currency", 150, 40),
        Service("catalog", 400, 120, garbage_mib=96),
        Service("cart", 300, 60, calls=((("store", 1),),)),
        Service("store", 100, 100, garbage_mib=96),
        Service("ads", 200, 70),
        Service("recommendation", 500, 140, garbage_mib=128, calls=((("catalog", 1),),)),
        Service(
            "checkout",
            800,
            60,
            request_kib=512,
            calls=(
                (("cart", 1), ("currency", 1), ("catalog", 1)),
                (("payment", 1),),
                (("shipping", 1), ("email", 1)),
            ),
        ),
        Service("payment", 400, 50, request_kib=256),
        Service("shipping", 300, 50, request_kib=256),
        Service("email", 300, 60, request_kib=256),
    ),
)

APPLICATIONS = {application.name: application for application in (MEDIA, SHOP)}

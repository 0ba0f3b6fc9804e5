"""Run an image registry beside the control plane, for a real node to pull from."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from kwok.images import oci
from kwok.network import addresses
from kwok.ports import answers_ready
from kwok.real_node import containerd
from kwok.real_node.machine import Machine

__all__ = ["Registry"]


@dataclass(frozen=True)
class Registry:
    """A registry that one machine pulls from. Create it with `Registry.start`."""

    machine: Machine
    address: str
    imported: frozenset[str]  # the machine's images that were there before the registry

    @classmethod
    def start(cls, machine: Machine) -> Registry:
        lab = machine.lab
        port = lab.free_port()
        address = f"{addresses.CONTROL_PLANE}:{port}"
        containerd.allow_plain_http(machine, address)
        argv: list[str | Path] = [lab.binaries.path("registry"), "-address", f":{port}"]
        lab.start("registry", argv, ready=lambda: answers_ready(port, "/v2/"), port=port)
        return cls(machine, address, _image_names(machine))

    def push(self, name: str, padding_bytes: int) -> str:
        """Push the pause image with so many random bytes beside it; the image's name for pods.

        Its layer is not compressed, so a pull transfers these bytes. The machine does not keep the image.
        """
        reference = f"{self.address}/{name}:lab"
        with tempfile.TemporaryDirectory() as scratch:
            padding, layer, archive = (Path(scratch, part) for part in ("padding", "layer.tar", "image.tar"))
            with Path("/dev/urandom").open("rb") as random_bytes:
                padding.write_bytes(random_bytes.read(padding_bytes))
            oci.write_layer({"/pause": self.machine.lab.binaries.path("pause"), "/padding": padding}, layer)
            oci.write_image(reference, [layer], oci.Settings(entrypoint=["/pause"]), archive)
            containerd.import_image(self.machine, archive)
        containerd.images(self.machine, "push", "--plain-http", reference)
        self.forget_pulled()
        return reference

    def forget_pulled(self) -> None:
        """Remove from the machine what it pulled, with its content: the next use pulls it again."""
        if pulled := _image_names(self.machine) - self.imported:
            containerd.images(self.machine, "remove", "--sync", *sorted(pulled))


def _image_names(machine: Machine) -> frozenset[str]:
    """All names: containerd has a pulled image under its name, its digest and its id."""
    return frozenset(containerd.images(machine, "list", "--quiet").split())

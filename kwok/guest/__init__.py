"""A guest: a virtual machine with a kernel of its own, for what this machine's kernel does not have.

It runs one command on files it is given, and ends. Emulated (QEMU's TCG), so it needs no KVM and no right;
it is ten or more times slower than the machine.
"""

from __future__ import annotations

from kwok.guest.initramfs import PACKAGES, installed
from kwok.guest.machine import Ended, run
from kwok.guest.requirements import why_no_guest

__all__ = ["PACKAGES", "Ended", "installed", "run", "why_no_guest"]

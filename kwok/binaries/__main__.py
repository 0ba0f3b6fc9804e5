"""`python -m kwok.binaries`: make the binaries every lab needs, say where they are."""

from __future__ import annotations

import sys

from kwok.binaries import CORE, Binaries
from kwok.errors import BinariesError

try:
    places = [Binaries().directory(group) for group in CORE]
except BinariesError as error:
    sys.exit(f"error: {error}")
sys.stdout.write("\n".join(dict.fromkeys(map(str, places))) + "\n")

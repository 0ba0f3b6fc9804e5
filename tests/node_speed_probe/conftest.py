from __future__ import annotations

from hypothesis import settings

# Two shared cores: how long an example takes says nothing about the code.
settings.register_profile("shared-cores", deadline=None)
settings.load_profile("shared-cores")

"""An API server in memory for unit tests. The tests beside it hold it against the real one.

It has the names, uids, versions, generations, 404 and 409, selectors, pages, the three patches, the
subresources status, scale and resize, deletion with preconditions, grace and finalizers, watches, compaction.
It lacks schemas and defaults, admission, access control, conversion between versions, and missing namespaces.
"""

from __future__ import annotations

from tests.fake_api_server.kinds import Kind, ScalePaths
from tests.fake_api_server.server import Call, FakeApiServer, Json

__all__ = ["Call", "FakeApiServer", "Json", "Kind", "ScalePaths"]

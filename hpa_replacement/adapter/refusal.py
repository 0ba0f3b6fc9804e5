"""An error response, as the `Status` object every Kubernetes client understands."""

from __future__ import annotations

from typing import Any

__all__ = ["Refusal"]

_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    500: "InternalError", 503: "ServiceUnavailable",
}  # fmt: skip


class Refusal(Exception):
    """Ends the handling of a request; `message` is for the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def status(self) -> dict[str, Any]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS.get(self.code, "Unknown"),
            "code": self.code,
        }

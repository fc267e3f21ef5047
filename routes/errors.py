"""Errors on the wire: `{"error": {"message": ..., "type": ..., "code": ...}}`, the last two only where they exist.

Some protocols have a shape of their own, which all errors of their paths have: a missing key or a wrong method too.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from actors.errors import (
    BodyTooLarge,
    MethodNotAllowed,
    NotFound,
    QueueFull,
    RequestError,
    StartError,
    TroupeError,
    Unauthorized,
)
from routes.wire import json_response

Dialect = Callable[[Exception], dict[str, object]]
"""Writes the JSON of an error."""

_HEADERS: dict[type[TroupeError], dict[str, str]] = {
    QueueFull: {"retry-after": "1"},
    Unauthorized: {"www-authenticate": "Bearer"},
    # The rest of the body stays unread, so the connection cannot carry another request.
    BodyTooLarge: {"connection": "close"},
}


def error_body(error: Exception) -> dict[str, object]:
    """The JSON of an error."""
    body: dict[str, object] = {"message": error_message(error)}
    if isinstance(error, TroupeError) and error.type is not None:
        body["type"] = error.type
    if isinstance(error, TroupeError) and error.code is not None:
        body["code"] = error.code
    return {"error": body}


def responses_error(error: Exception) -> dict[str, object]:
    """The JSON of an error in the Responses protocol: always with all four fields, and of two types only."""
    at_fault = "invalid_request_error" if isinstance(error, RequestError) else "server_error"
    code = error.code if isinstance(error, TroupeError) else None
    return {"error": {"message": error_message(error), "type": at_fault, "param": None, "code": code}}


def messages_error(error: Exception) -> dict[str, object]:
    """The JSON of an error in the Messages protocol, whose types follow the status."""
    status = error.status if isinstance(error, TroupeError) else 500
    at_fault = "invalid_request_error" if status < 500 else "api_error"
    return {"type": "error", "error": {"type": _MESSAGES_TYPES.get(status, at_fault), "message": error_message(error)}}


def api_error(error: Exception) -> dict[str, object]:
    """The JSON of an error of the routes that look after the server."""
    return {"ok": False, "error": error_message(error)}


_MESSAGES_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", messages_error),
    ("/v1/responses", responses_error),
    ("/api", api_error),
)
"""Beginnings of paths, and how their errors are told; all others have `error_body`."""


def error_message(error: Exception) -> str:
    """What a client is told. An error that is not ours keeps its words to the log."""
    if not isinstance(error, TroupeError) or isinstance(error, StartError):
        return "internal server error"
    return error.message


def dialect_of(path: str) -> Dialect:
    """How the errors of a path are written."""
    return next((write for start, write in _DIALECTS if path == start or path.startswith(f"{start}/")), error_body)


def error_response(error: Exception, path: str) -> Response:
    """The response that tells an error of a request to a path."""
    body = dialect_of(path)(error)
    if not isinstance(error, TroupeError):
        return json_response(body, 500)
    return json_response(body, error.status, _HEADERS.get(type(error)))


async def routing_error(request: Request, error: Exception) -> Response:
    """What the route table itself says: no such path, or not with this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == MethodNotAllowed.status:
        allowed = error.headers if isinstance(error, HTTPException) else None
        body = dialect_of(request.url.path)(MethodNotAllowed("method not allowed"))
        return json_response(body, status, allowed)
    if status == NotFound.status:
        return error_response(NotFound("not found"), request.url.path)
    return error_response(error, request.url.path)

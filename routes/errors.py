"""Errors on the wire: `{"error": {"message": ..., "type": ..., "code": ...}}`, the last two only where they exist."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from actors.errors import BodyTooLarge, MethodNotAllowed, NotFound, QueueFull, StartError, TroupeError, Unauthorized
from routes.wire import json_response

_HEADERS: dict[type[TroupeError], dict[str, str]] = {
    QueueFull: {"retry-after": "1"},
    Unauthorized: {"www-authenticate": "Bearer"},
    # The rest of the body stays unread, so the connection cannot carry another request.
    BodyTooLarge: {"connection": "close"},
}


def error_body(error: Exception) -> dict[str, object]:
    """The JSON of an error. One that is not ours keeps its words to the log."""
    if not isinstance(error, TroupeError) or isinstance(error, StartError):
        return {"error": {"message": "internal server error"}}
    body: dict[str, object] = {"message": error.message}
    if error.type is not None:
        body["type"] = error.type
    if error.code is not None:
        body["code"] = error.code
    return {"error": body}


def error_response(error: Exception) -> Response:
    """The response that tells an error."""
    if not isinstance(error, TroupeError):
        return json_response(error_body(error), 500)
    return json_response(error_body(error), error.status, _HEADERS.get(type(error)))


async def routing_error(request: Request, error: Exception) -> Response:
    """What the route table itself says: no such path, or not with this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == MethodNotAllowed.status:
        allowed = error.headers if isinstance(error, HTTPException) else None
        return json_response(error_body(MethodNotAllowed("method not allowed")), status, allowed)
    if status == NotFound.status:
        return error_response(NotFound("not found"))
    return error_response(error)

"""Every failure Troupe speaks of, as one tree.

    TroupeError
    ├── StartError            the server cannot start; one sentence for the person who started it
    ├── RequestError          the request is at fault (4xx)
    │   ├── InvalidRequest        400
    │   ├── UndecodableAudio      400, invalid_request_error
    │   ├── ContextOverBudget     400, memory_admission / context_over_budget
    │   ├── Unauthorized          401
    │   ├── Forbidden             403
    │   ├── NotFound              404
    │   ├── MethodNotAllowed      405
    │   ├── Conflict              409
    │   ├── Expired               410
    │   ├── BodyTooLarge          413
    │   ├── UnsupportedMedia      415
    │   ├── HeadersTooLarge       431
    │   ├── QueueFull             429, resource_admission / queue_full
    │   └── ClientGone            499
    └── ServiceError          the server is at fault (5xx)
        ├── GenerationFailed      500
        ├── EngineUnavailable     502, engine_unavailable
        ├── CacheUnavailable      503, cache_unavailable
        ├── StoreUnavailable      503, store_unavailable
        ├── LibraryUnavailable    503, library_unavailable
        ├── ModelUnavailable      503, model_unavailable
        └── ShuttingDown          503, shutting_down

Errors cross process boundaries, so each one is rebuilt from its positional arguments: `message` is the only
argument, and what the wire needs beside it (`status`, `type`, `code`) is a property of the class.
"""

from __future__ import annotations

from typing import ClassVar


class TroupeError(Exception):
    """Root of the tree. `message` is shown to people; it names no secret and no stack frame."""

    status: ClassVar[int] = 500
    type: ClassVar[str | None] = None
    code: ClassVar[str | None] = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StartError(TroupeError):
    """The configuration or the model does not allow a start. Never sent to a client."""


class RequestError(TroupeError):
    """The request is at fault; repeating it unchanged gives the same answer (except `QueueFull`)."""

    status = 400


class InvalidRequest(RequestError):
    type = "invalid_request_error"


class UndecodableAudio(RequestError):
    """The bytes are no audio that can be read, or more of it than is allowed."""

    type = "invalid_request_error"


class ContextOverBudget(RequestError):
    """The prompt leaves no room for a single token within an explicitly configured limit."""

    type = "memory_admission"
    code = "context_over_budget"


class Unauthorized(RequestError):
    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"


class Forbidden(RequestError):
    """Known, but not allowed: a key without the scope, a foreign page, a name that is not the server's."""

    status = 403
    type = "invalid_request_error"
    code = "forbidden"


class NotFound(RequestError):
    status = 404


class MethodNotAllowed(RequestError):
    status = 405


class Conflict(RequestError):
    """It would have to be done twice at once; the same request may succeed later."""

    status = 409


class BodyTooLarge(RequestError):
    status = 413
    type = "invalid_request_error"


class HeadersTooLarge(RequestError):
    """Headers, or the request line, beyond their limits."""

    status = 431
    type = "invalid_request_error"


class Expired(RequestError):
    """What the request is about was there, and has been given up because nobody used it."""

    status = 410


class UnsupportedMedia(RequestError):
    status = 415
    type = "invalid_request_error"


class QueueFull(RequestError):
    """A waiting line is at its bound; the same request may succeed later."""

    status = 429
    type = "resource_admission"
    code = "queue_full"


class ClientGone(RequestError):
    """The client left before its answer was ready; nobody reads this."""

    status = 499


class ServiceError(TroupeError):
    """The server is at fault."""


class GenerationFailed(ServiceError):
    """One row failed. The stack is in the log; the client gets the message alone."""


class EngineUnavailable(ServiceError):
    """The generation scheduler died or cannot be reached; it restarts by itself."""

    status = 502
    type = "engine_unavailable"


class LibraryUnavailable(ServiceError):
    """The library died or cannot be reached; it restarts by itself. Nothing else waits for it."""

    status = 503
    type = "library_unavailable"


class ModelUnavailable(ServiceError):
    """There is no model on this machine that could do it, or it cannot be loaded now."""

    status = 503
    type = "model_unavailable"


class StoreUnavailable(ServiceError):
    """The response store died or cannot be reached; it restarts by itself, empty."""

    status = 503
    type = "store_unavailable"


class CacheUnavailable(ServiceError):
    """The prompt-cache manager died or cannot be reached; it restarts by itself. Requests only start colder."""

    status = 503
    type = "cache_unavailable"


class ShuttingDown(ServiceError):
    status = 503
    type = "shutting_down"


def _walk(cls: type[TroupeError]) -> dict[str, type[TroupeError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found.update(_walk(child))
    return found


def by_name(name: str, message: str) -> TroupeError:
    """Rebuild an error that travelled as (class name, message); an unknown name becomes `GenerationFailed`."""
    return _walk(TroupeError).get(name, GenerationFailed)(message)


def in_words(error: Exception, limit: int = 300) -> str:
    """What any exception says, on one line; its kind where it says nothing."""
    return (" ".join(str(error).split()) or type(error).__name__)[:limit]

"""Fields of the protocol whose function this server does not have yet. Pure.

Their values are checked like all others; one that would change the answer is refused by name, never ignored.
"""

from __future__ import annotations

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body


def refuse_unserved(body: Body) -> None:
    """Check the fields of both completion routes that cannot be served.

    Raises:
        InvalidRequest: one is ill-typed, or asks for something.
    """
    if fields.string(body, "adapter") not in (None, "none"):
        raise InvalidRequest("adapter is not supported by this server")

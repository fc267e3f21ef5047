"""GET and DELETE /v1/responses/<id>, and GET /v1/responses/<id>/input_items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.errors import InvalidRequest, NotFound
from actors.ids import RequestId
from routes.context import AppContext
from routes.schema.fields import choice, integer
from routes.schema.response_items import Item
from routes.wire import json_response

_MOST = 100
_USUAL = 20


class StoredResponseRoutes:
    """What was answered within the store's time. Every method may raise `NotFound` and `StoreUnavailable`."""

    def __init__(self, context: AppContext) -> None:
        self._store = context.responses

    async def one(self, request: Request) -> Response:
        """`show` or `delete`, as the method says."""
        return await (self.delete if request.method == "DELETE" else self.show)(request)

    async def show(self, request: Request) -> Response:
        """The response object, as it was sent."""
        if request.query_params.get("stream", "").lower() == "true":
            raise InvalidRequest("a stored response is not streamed again: leave stream out")
        name = _name(request)
        found = await self._store.find(name)
        if found is None:
            raise _missing(name)
        return Response(found, media_type="application/json")

    async def delete(self, request: Request) -> Response:
        """Forget it. Responses that continue it keep what was said."""
        name = _name(request)
        if not await self._store.forget(name):
            raise _missing(name)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def input_items(self, request: Request) -> Response:
        """What it was made from, earlier turns included, a page at a time, newest first unless `order` is `asc`."""
        name = _name(request)
        page = _Page(request.query_params)
        turns = await self._store.thread(name)
        if turns is None:
            raise _missing(name)
        items: list[Item] = []
        for number, turn in enumerate(turns, 1):
            items += msgspec.json.decode(turn.input, type=list[dict[str, object]])
            if number < len(turns):
                output = msgspec.json.decode(turn.response, type=dict[str, object])["output"]
                assert isinstance(output, list)
                items += output
        return json_response(page.of(items))


class _Page:
    """A part of a list. Raises InvalidRequest for parameters that name none."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = dict(parameters)
        limit = given.get("limit", "")
        number = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 10 else limit or None
        self._limit = integer({"limit": number}, "limit", 1, _MOST) or _USUAL
        self._newest_first = choice(given, "order", ("asc", "desc")) != "asc"
        self._after = given.get("after")

    def of(self, items: Sequence[Item]) -> dict[str, object]:
        ordered = list(items)[::-1] if self._newest_first else list(items)
        if self._after is not None:
            places = [place for place, item in enumerate(ordered) if item.get("id") == self._after]
            if not places:
                raise InvalidRequest("after names no item of this response")
            ordered = ordered[places[0] + 1 :]
        shown = ordered[: self._limit]
        return {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
            "has_more": len(ordered) > len(shown),
        }


def _name(request: Request) -> RequestId:
    return RequestId(request.path_params["response_id"])


def _missing(name: RequestId) -> NotFound:
    return NotFound(f"response with id '{name}' not found")

"""The API as an OpenAPI document, made from the doors of the application."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from actors.errors import TroupeError
from routes.door import Door
from routes.errors import api_error, dialect_of, messages_error, responses_error
from routes.openapi.errors import ApiErrorAnswer, ErrorAnswer, MessagesErrorAnswer, ResponsesErrorAnswer
from routes.operation import Operation

Json = dict[str, Any]

_PARAMETER = re.compile(r"\{([a-z_]+)(?::[a-z]+)?\}")
_REFERENCE = "#/components/schemas/{model}"
_SECURITY = [{"bearer": []}, {"x-api-key": []}]
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def document(doors: Sequence[Door], version: str, keyed: bool) -> Json:
    """An OpenAPI 3.1 document.

    Args:
        doors: every route.
        version: of the server.
        keyed: whether callers need a key.
    """
    bodies = [one.body for door in doors for one in door.operations.values() if one.body is not None]
    answers = (ErrorAnswer, ApiErrorAnswer, MessagesErrorAnswer, ResponsesErrorAnswer)
    named, definitions = models_json_schema(
        [(model, "validation") for model in dict.fromkeys([*bodies, *answers])], ref_template=_REFERENCE
    )
    assert len(named) == len({model.__name__ for model, _ in named})
    paths: Json = {}
    for door in doors:
        paths.setdefault(_path(door.path), {}).update(
            {method.lower(): _operation(door, one, keyed) for method, one in door.operations.items()}
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Troupe", "version": version, "description": "A local inference server."},
        "paths": paths,
        "components": {"schemas": definitions["$defs"], **({"securitySchemes": _SCHEMES} if keyed else {})},
    }


def _path(path: str) -> str:
    return _PARAMETER.sub(r"{\1}", path)


def _operation(door: Door, operation: Operation, keyed: bool) -> Json:
    described: Json = {"summary": operation.summary, "responses": _responses(door.path, operation)}
    if keyed:
        described["security"] = [] if operation.right == "open" else _SECURITY
        described["description"] = (
            f"Needs a key for {operation.right}." if operation.right != "open" else "Open to all."
        )
    parameters = [*_path_parameters(door.path), *_query_parameters(operation.query)]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = {"$ref": _REFERENCE.format(model=operation.body.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _path_parameters(path: str) -> Iterable[Json]:
    for name in _PARAMETER.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query_parameters(query: type[BaseModel] | None) -> Iterable[Json]:
    if query is None:
        return
    schema = query.model_json_schema(ref_template=_REFERENCE)
    for name, described in schema["properties"].items():
        described = {key: value for key, value in described.items() if key != "title"}
        words = described.pop("description", "")
        required = name in schema.get("required", ())
        yield {"name": name, "in": "query", "required": required, "description": words, "schema": described}


def _responses(path: str, operation: Operation) -> Json:
    """The answer, the refusals that are a route's own, and those that any route may give."""
    content: Json = {operation.media: {"schema": {}}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {}}
    refusal = {"schema": {"$ref": _REFERENCE.format(model=_error_model(path).__name__)}}
    refused = {"content": {"application/json": refusal}}
    own = {str(error.status): {"description": _words(error), **refused} for error in operation.refuses}
    either = {"application/json": {"schema": {"anyOf": [refusal["schema"], {"type": "object"}]}}}
    own |= {str(status): {"description": "Not all of it is done.", "content": either} for status in operation.partly}
    return {
        "200": {"description": "Done.", "content": content},
        **own,
        "4XX": {"description": "The request is at fault.", **refused},
        "5XX": {"description": "The server is at fault, or stops.", **refused},
    }


def _error_model(path: str) -> type[BaseModel]:
    models: Mapping[object, type[BaseModel]] = {
        api_error: ApiErrorAnswer,
        messages_error: MessagesErrorAnswer,
        responses_error: ResponsesErrorAnswer,
    }
    return models.get(dialect_of(path), ErrorAnswer)


def _words(error: type[TroupeError]) -> str:
    return (error.__doc__ or error.__name__).split("\n")[0]

"""Errors as they are described; routes/errors.py writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ErrorDetails(BaseModel):
    """What went wrong."""

    message: str
    type: str | None = Field(None, description="Only where the kind of error has one.")
    code: str | None = Field(None, description="Only where the kind of error has one.")


class ErrorAnswer(BaseModel):
    """An error."""

    error: ErrorDetails


class ApiErrorAnswer(BaseModel):
    """An error of the routes that look after the server."""

    ok: Literal[False]
    error: str


class MessagesErrorDetails(BaseModel):
    """What went wrong, in the Messages protocol."""

    type: str
    message: str


class MessagesErrorAnswer(BaseModel):
    """An error of the Messages protocol."""

    type: Literal["error"]
    error: MessagesErrorDetails


class ResponsesErrorDetails(BaseModel):
    """What went wrong, in the Responses protocol."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: None
    code: str | None


class ResponsesErrorAnswer(BaseModel):
    """An error of the Responses protocol."""

    error: ResponsesErrorDetails

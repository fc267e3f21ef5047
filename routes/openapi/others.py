"""The bodies and queries of the remaining routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.described import Described, Name

Ids = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Texts = (
    Name
    | Annotated[list[Name], Field(min_length=1, max_length=2048)]
    | Ids
    | Annotated[list[Ids], Field(min_length=1, max_length=2048)]
)


class EmbeddingsBody(Described):
    """Texts to embed."""

    model: Any = Field(None, description="Whatever it says, the configured model embeds.")
    input: Texts = Field(description="A text or several, as text or as token ids.")
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=2**20)] | None = Field(None, description="Numbers wanted of each vector.")
    instruction: str | None = Field(None, description="Task of a query, for models that read one; with text only.")
    truncate: bool | Literal["none", "end", "start", "NONE", "END", "START"] | None = Field(
        None, description="What becomes of a text that is too long; by default it is refused."
    )


class RepositoryBody(Described):
    """A repository of the hub."""

    repo: Name = Field(description="Such as `owner/name`.")


class ModelBody(Described):
    """A model."""

    model: Name


class ConsentBody(Described):
    """Deleting asks for consent."""

    yes: Literal[True]


class TokenBody(Described):
    """A token of the hub."""

    token: Name


class SessionBody(Described):
    """A session of the prompt cache."""

    session_id: str | None = None


class SearchQuery(Described):
    """Words to look for."""

    q: Name


class LibraryQuery(Described):
    """How to look."""

    refresh: str | None = Field(None, description="1 looks at the disk anew.")

"""What the descriptions of bodies are made of.

The readers in routes/schema check bodies; these models only say what the readers take. tests/routes/openapi holds the
two together: every field that is described is read, every field that is read is described, and both refuse the same.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST_TOKENS = 2**53
MOST = 2**31 - 1


class Described(BaseModel):
    """A JSON object. Further fields are not looked at, and null is the same as absent."""

    model_config = ConfigDict(extra="allow")


Label = Annotated[str, Field(max_length=512)]
Name = Annotated[str, Field(min_length=1)]
Stop = Annotated[str, Field(min_length=1, max_length=1024)]
Source = Annotated[str, Field(max_length=262144, pattern=r"\S")]
"""A grammar or an expression."""
Schema = Annotated[dict[str, object], Field(description="A JSON schema of at most 200 levels.")]
Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Share = Annotated[float, Field(ge=0, le=1)]
Window = Annotated[int, Field(ge=0, le=MOST, description="Last tokens that the penalty looks at; 0 is all of them.")]
Curve = Annotated[float, Field(ge=0, le=100)]
Strength = Annotated[float, Field(ge=-1000, le=1000)]
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
Bias = Annotated[float, Field(ge=-1e6, le=1e6)]

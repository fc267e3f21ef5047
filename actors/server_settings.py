"""The `server` section of the configuration: where clients reach the server, and who may."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from actors.section import Secret, Section, Size

_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", re.IGNORECASE)


def _host(value: str) -> str:
    """A name or an address, without scheme and port."""
    if _NAME.fullmatch(value):
        return value.lower()
    try:
        return str(ipaddress.ip_address(value[1:-1] if value[:1] + value[-1:] == "[]" else value))
    except ValueError:
        raise ValueError("should be a host without scheme and port, such as troupe.lan or *.example.com") from None


class ApiKey(Section):
    """One key."""

    name: str = Field(min_length=1, description="What the key is called where it must be spoken of.")
    key: Secret = Field(
        description="What the client sends. `env:NAME` takes it from the environment variable NAME, which keeps it out "
        "of the file, of Ray's log and of its dashboard."
    )
    scopes: tuple[Literal["inference", "admin"], ...] = Field(
        default=("inference",),
        min_length=1,
        strict=False,
        description="What the key opens: `inference` answers requests and shows figures, `admin` changes the server.",
    )


class ServerSettings(Section):
    """Where clients reach the server, and who may."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. Anything but loopback exposes the server; admin routes are closed there "
        "until a key opens them.",
    )
    port: int = Field(default=8080, ge=1, le=65535, description="TCP port of the HTTP API.")
    api_key: Secret | None = Field(
        default=None,
        description="One key for everything. When this or `server.api_keys` is set, every route but /health asks for "
        "a key as a bearer token or x-api-key. `env:NAME` takes it from the environment variable NAME, which keeps it "
        "out of the file, of Ray's log and of its dashboard.",
    )
    api_keys: tuple[ApiKey, ...] = Field(
        default=(), strict=False, description="Keys with names and scopes, beside `server.api_key`."
    )
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = Field(
        default=(),
        strict=False,
        description="Names by which clients may call the server, beside loopback and the address it listens on; "
        "`*.example.com` stands for all below it, `*` switches the check off.",
    )
    cors_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Origins whose pages may call the API. Empty keeps CORS closed; `*` opens it to all.",
    )
    max_body_bytes: Size = Field(default=64 * 2**20, description="Largest request body; a longer one answers 413.")
    max_header_bytes: Size = Field(
        default=64 * 2**10, description="Largest request line and headers together; larger ones answer 431."
    )
    max_headers: int = Field(default=100, ge=1, description="Headers of a request at most; more answer 431.")
    drain_timeout_s: float = Field(
        default=30.0, ge=0, description="How long a stopping server lets running requests finish before it ends them."
    )

    @model_validator(mode="after")
    def _told_apart(self) -> ServerSettings:
        if double := _double([key.name for key in self.api_keys]):
            raise ValueError(f"api_keys has two keys named {double}")
        values = [key.key.get_secret_value() for key in self.api_keys]
        if self.api_key is not None:
            values.append(self.api_key.get_secret_value())
        if _double(values):
            raise ValueError("two API keys are the same")
        return self


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def misgivings(args: Mapping[str, Any], settings: ServerSettings) -> list[str]:
    """Sentences for whoever starts a server that is more open than it may seem.

    Args:
        args: of the application, as they came: they tell whether a key was written out.
        settings: what was made of them.
    """
    found: list[str] = []
    keys = settings.api_key is not None or bool(settings.api_keys)
    if not keys and not is_loopback(settings.host):
        found.append(f"server.host {settings.host} is open to all who reach it: there are no API keys")
    server = args.get("server")
    if isinstance(server, Mapping) and any(_written_out(server)):
        found.append(
            "an API key is written out in the configuration, where Ray's dashboard shows it; env:NAME hides it"
        )
    return found


def _written_out(server: Mapping[str, Any]) -> Iterator[bool]:
    given = [server.get("api_key"), *(entry.get("key") for entry in server.get("api_keys") or ())]
    for key in given:
        yield isinstance(key, str) and not key.startswith("env:")


def _double(values: Sequence[str]) -> str | None:
    return next((value for place, value in enumerate(values) if value in values[:place]), None)

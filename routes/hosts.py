"""Which names and which pages a server answers to.

A web page may make a browser call any server that the browser reaches. It cannot hide two things: the name it called,
and where it comes from. A page whose name was made to point at this machine (DNS rebinding) calls us by a foreign
name. A page of another origin may send some requests without asking first; it says where it comes from.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.errors import Forbidden, InvalidRequest, RequestError
from actors.server_settings import ServerSettings, is_loopback
from routes.refusal import turn_away

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@?#\s]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_READING = ("GET", "HEAD", "OPTIONS")


class HostRules:
    """Who may be called, and by whose pages. Pure."""

    def __init__(self, settings: ServerSettings) -> None:
        self._bound = _plain(settings.host)
        self._names = settings.allowed_hosts
        self._origins = frozenset(settings.cors_origins)

    def fault(self, scope: Scope) -> RequestError | None:
        """What is wrong with a request's `Host` or `Origin`; None when nothing is."""
        headers = Headers(scope=scope)
        hosts = [host.strip() for host in headers.getlist("host")]
        if len(hosts) > 1 or (not hosts and scope.get("http_version", "1.1") != "1.0"):
            return InvalidRequest("a request has exactly one Host header")
        if hosts and not self.answers_to(hosts[0]):
            return Forbidden("the Host header names another server (server.allowed_hosts lists more names)")
        safe = scope["type"] == "http" and scope["method"] in _READING
        if not safe and not self._may_call(headers.getlist("origin"), hosts):
            return Forbidden("pages of this origin may not call this server (server.cors_origins)")
        return None

    def answers_to(self, authority: str) -> bool:
        """Whether a `Host` header names this server."""
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        host = _plain(match[1])
        return is_loopback(host) or host == self._bound or self._listed(host) or self._by_number(host)

    def _listed(self, host: str) -> bool:
        return any(
            pattern in ("*", host) or (pattern.startswith("*.") and host.endswith(pattern[1:]))
            for pattern in self._names
        )

    def _by_number(self, host: str) -> bool:
        """Who listens everywhere has addresses that cannot be listed. Nobody can point a number elsewhere."""
        return self._bound in ("0.0.0.0", "::") and _is_address(host)

    def _may_call(self, origins: Sequence[str], hosts: Sequence[str]) -> bool:
        """Programs send no origin; the server's own pages send its own."""
        if not origins or "*" in self._origins:
            return True
        own = [f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in hosts]
        return len(origins) == 1 and (origins[0].lower() in own or origins[0] in self._origins)


class HostMiddleware:
    """Turns away requests that are meant for another server, or come from a foreign page."""

    def __init__(self, app: ASGIApp, rules: HostRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises InvalidRequest or Forbidden over HTTP; closes a WebSocket with 1008."""
        fault = self._rules.fault(scope) if scope["type"] in ("http", "websocket") else None
        if fault is not None:
            await turn_away(scope, send, fault)
        else:
            await self._app(scope, receive, send)


def _plain(host: str) -> str:
    """Lower case, without brackets and the root's dot; addresses in their one spelling."""
    host = host.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    return str(ipaddress.ip_address(host)) if _is_address(host) else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

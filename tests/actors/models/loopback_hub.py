"""A model hub on loopback: fetching, searching and whose token it is, answered from a folder of repositories."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD_TOKEN = "hf_known"
"""The one token that the hub knows."""


@dataclass(frozen=True)
class Hub:
    """Where it is, and what it was asked for."""

    address: str
    asked: list[str]
    tokens: list[str]
    """What came as authorization."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: ClassVar[Path]
    gated: ClassVar[frozenset[str]]
    broken: ClassVar[frozenset[str]]
    asked: ClassVar[list[str]]
    tokens: ClassVar[list[str]]
    hold: ClassVar[Event | None]

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        part = f" {self.headers['Range']}" if self.headers["Range"] else ""
        self.asked.append(f"{self.command} {urlsplit(self.path).path}{part}")

    def _answer(self) -> None:
        self.tokens.append(self.headers.get("authorization", ""))
        match urlsplit(self.path).path.strip("/").split("/"):
            case ["api", "whoami-v2"]:
                known = self.headers.get("authorization") == f"Bearer {GOOD_TOKEN}"
                self._send(200 if known else 401, b'{"name": "somebody"}')
            case ["api", "models"]:
                self._search(parse_qs(urlsplit(self.path).query))
            case ["api", "models", owner, name, *rest]:
                self._describe(f"{owner}/{name}", rest)
            case [owner, name, "resolve", _, *path]:
                self._file(self.root / owner / name / "/".join(path))
            case _:
                self._send(404, b"{}")

    def _describe(self, repository: str, rest: list[str]) -> None:
        if repository in self.broken:
            return self._send(500, b"{}")
        if repository in self.gated:
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        folder = self.root / repository
        if not folder.is_dir():
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        paths = sorted(folder.iterdir())
        if rest[:1] == ["tree"]:
            return self._send(200, json.dumps([_entry(path) for path in paths]).encode())
        siblings = [{"rfilename": path.name} for path in paths]
        self._send(200, json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode())

    def _search(self, query: dict[str, list[str]]) -> None:
        wanted = query["search"][0]
        found = [f"{path.parent.name}/{path.name}" for path in sorted(self.root.glob("*/*"))]
        rows = [{"id": name, "downloads": 7, "likes": 3} for name in found if wanted in name]
        self._send(200 if query["filter"] == ["mlx"] else 400, json.dumps(rows).encode())

    def _file(self, path: Path) -> None:
        if not path.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        body, headers = path.read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(path)}"'}
        if (asked := self.headers["Range"]) is not None:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            return self._send(206, body[start:], headers)
        if self.hold is not None and self.command == "GET" and path.suffix == ".safetensors":
            return self._halting(body, headers, self.hold)
        self._send(200, body, headers)

    def _halting(self, body: bytes, headers: dict[str, str], hold: Event) -> None:
        """Half of a file, and the rest when the test says so."""
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        hold.wait()
        with contextlib.suppress(OSError):  # who waited may be gone
            self.wfile.write(body[len(body) // 2 :])

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _entry(path: Path) -> dict[str, object]:
    """A file in a listing. Weights are large files, known by their SHA-256."""
    size = path.stat().st_size
    entry: dict[str, object] = {"type": "file", "path": path.name, "size": size, "oid": _etag(path)}
    if path.suffix == ".safetensors":
        entry["lfs"] = {"oid": _etag(path), "size": size, "pointerSize": 130}
    return entry


def _etag(path: Path) -> str:
    digest = hashlib.sha256 if path.suffix == ".safetensors" else hashlib.sha1
    return digest(path.read_bytes()).hexdigest()


@contextmanager
def serving(
    root: Path, *, gated: Iterable[str] = (), broken: Iterable[str] = (), hold: Event | None = None
) -> Iterator[Hub]:
    """Serve the repositories `<root>/<owner>/<name>` while the block runs.

    With `hold`, weights stop half-way until it is set; asking for the rest of a file is answered at once.
    """
    asked: list[str] = []
    tokens: list[str] = []
    about = {"root": root, "gated": frozenset(gated), "broken": frozenset(broken)}
    about |= {"asked": asked, "tokens": tokens, "hold": hold}
    handler = type("RootedHandler", (Handler,), about)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Hub(f"http://127.0.0.1:{server.server_address[1]}", asked, tokens)
    finally:
        if hold is not None:
            hold.set()
        server.shutdown()
        thread.join()
        server.server_close()

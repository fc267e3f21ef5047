"""A model hub on loopback: what fetching a snapshot asks for, answered from a folder of repositories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Hub:
    """Where it is, and what it was asked for."""

    address: str
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: ClassVar[Path]
    gated: ClassVar[frozenset[str]]
    broken: ClassVar[frozenset[str]]
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(f"{self.command} {urlsplit(self.path).path}")

    def _answer(self) -> None:
        match urlsplit(self.path).path.strip("/").split("/"):
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
            files = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": _etag(path)} for path in paths
            ]
            return self._send(200, json.dumps(files).encode())
        siblings = [{"rfilename": path.name} for path in paths]
        self._send(200, json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode())

    def _file(self, path: Path) -> None:
        if not path.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        self._send(200, path.read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(path)}"'})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serving(root: Path, *, gated: Iterable[str] = (), broken: Iterable[str] = ()) -> Iterator[Hub]:
    """Serve the repositories `<root>/<owner>/<name>` while the block runs."""
    asked: list[str] = []
    about = {"root": root, "gated": frozenset(gated), "broken": frozenset(broken), "asked": asked}
    handler = type("RootedHandler", (Handler,), about)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Hub(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Serve reports and timelines to browsers on this machine, as long as the command runs.

Every address begins with a random token, which other users' processes do not know. The server refuses a request whose
Host header names another machine: a foreign web page may have a host name that resolves to 127.0.0.1 (DNS rebinding).
The server offers only the pages and timelines of the given results, and accepts no data.
"""

import os
import secrets
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ms_profiler.analysis.page import document
from ms_profiler.errors import MsProfilerError

ADDRESS: Final = "127.0.0.1"
#: the last part of the address of each timeline
TIMELINE: Final = "timeline"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HTML: Final = "text/html; charset=utf-8"
_BYTES: Final = "application/octet-stream"


@dataclass
class Shelf:
    """The pages and timelines that a server offers. Each is made when a browser requests it for the first time.

    Attributes:
        index: the rows of `document.index`, one for each page; empty for a single page.
        pages: the paths of the pages: the parts of their addresses after the token.
        page: a function that makes the page at a path, and returns its file.
        timeline: a function that returns the file of a page's timeline, or None for a page without one.
    """

    index: list[dict[str, Any]]
    pages: list[str]
    page: Callable[[str], str]
    timeline: Callable[[str], str | None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: dict[str, str | None] = field(default_factory=dict)

    def file(self, page: str, what: str) -> str | None:
        """Return the file of a page or of its timeline; None if the page has no timeline.

        Args:
            page: one of `pages`.
            what: an empty text for the page, `TIMELINE` for the timeline.

        Raises:
            MsProfilerError: the result cannot be read.
        """
        # a lock, because making two pages at once would need twice the memory
        with self._lock:
            key = f"{page}/{what}"
            if key not in self._made:
                self._made[key] = self.timeline(page) if what else self.page(page)
            return self._made[key]


class Server(ThreadingHTTPServer):
    """A server for the pages and timelines of some results.

    Args:
        shelf: the pages and timelines to serve.
        port: the port to listen on; 0 for any free port.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, shelf: Shelf, port: int = 0) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.shelf = shelf
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def url(self) -> str:
        """Return the address of the first page."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "ms-profiler", ""
    #: seconds without data after which a connection is closed
    timeout = 60

    def do_GET(self) -> None:
        """Answer with a page or a timeline."""
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            return self._refuse(HTTPStatus.FORBIDDEN, "This server answers on 127.0.0.1 alone.")
        path = unquote(urlsplit(self.path).path)
        token, _, rest = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            return self._refuse(HTTPStatus.NOT_FOUND, "Nothing is here; use the address that the command printed.")
        try:
            return self._answer(rest)
        except MsProfilerError as error:
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, rest: str) -> None:
        shelf = self.server.shelf
        if rest == "" and shelf.index:
            return self._send(_HTML, document.index(shelf.index))
        page, _, what = rest.partition("/") if shelf.index else (shelf.pages[0], "", rest)
        if page not in shelf.pages or what not in ("", TIMELINE):
            return self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        file = shelf.file(page, what)
        if file is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "This result has no timeline.")
        with open(file, "rb") as stream:
            if not what:
                return self._send(_HTML, document.served(stream.read()))
            self._head(HTTPStatus.OK, _BYTES, os.fstat(stream.fileno()).st_size)
            if self.command != "HEAD":
                shutil.copyfileobj(stream, self.wfile)
        return None

    def _send(self, kind: str, content: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(status, kind, len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, length: int) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send("text/plain; charset=utf-8", f"{why}\n".encode("utf-8", "replace"), status)

    def log_message(self, *_: object) -> None:
        """Print nothing, because a log line would show the address, which is secret."""

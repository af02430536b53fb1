"""A stand-in for the hub on the loopback: what a download asks of it over HTTP, and faults on request."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote

Step = Literal["HEAD", "GET", "CDN"]
_RESOLVE = re.compile(r"/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_PIECE_BYTES = 1 << 14


@dataclass(slots=True)
class Fault:
    """What one answer does instead of the right thing.

    status, headers: answer so, with no file. cut: close the connection after so many bytes.
    sends: send these bytes as if they were the file's. gate: send half of what was asked, then wait.
    whole: send all of the file, whatever range was asked for.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    sends: bytes | None = None
    gate: Gate | None = None
    whole: bool = False


@dataclass(slots=True)
class Gate:
    """reached: the server has sent half; opened: it may send the rest."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came. sent: bytes of the file that were sent in answer."""

    step: Step
    path: str
    range: str | None
    authorised: bool
    sent: int


@dataclass(slots=True)
class HubServer:
    """Files by repository and name, at one commit a repository; faults, taken one an answer.

    address: the hub's; store: that of the host that it redirects to for bytes, as the real one does.
    """

    address: str = ""
    store: str = ""
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)
    faults: dict[Step, list[Fault]] = field(default_factory=lambda: {"HEAD": [], "GET": [], "CDN": []})
    requests: list[Request] = field(default_factory=list)
    more_headers: dict[str, str] = field(default_factory=dict)

    def add(self, repository: str, file: str, data: bytes, commit: str = "a" * 40) -> str:
        """Keep a file; its SHA-256."""
        self.files[repository, file] = data
        self.commits[repository] = commit
        return hashlib.sha256(data).hexdigest()

    @property
    def sent(self) -> int:
        """Bytes of files that were sent in all."""
        return sum(request.sent for request in self.requests)

    @property
    def ranges(self) -> list[str | None]:
        """The ranges that were asked of the store."""
        return [request.range for request in self.requests if request.step == "CDN"]


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A hub that listens until the end of the block."""
    hub = HubServer()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    # Another port is another host to a client: it keeps the token from it, as it must.
    with _listening(Handler) as hub.address, _listening(Handler) as hub.store:
        yield hub


@contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the test reads `requests`."""

    def do_HEAD(self) -> None:
        self._resolve("HEAD")

    def do_GET(self) -> None:
        if self.path.startswith("/cdn/"):
            self._store(unquote(self.path.removeprefix("/cdn/")))
        else:
            self._resolve("GET")

    def _resolve(self, step: Step) -> None:
        fault = self._fault(step)
        found = _RESOLVE.fullmatch(self.path)
        self._note(step, 0)
        if fault.status is not None or found is None:
            self._say(fault.status or 404, fault.headers)
            return
        repository, revision, file = (unquote(found[name]) for name in ("repository", "revision", "file"))
        commit = self.hub.commits.get(repository)
        if commit is None:
            # As the hub: who is not logged in is not told what is private and what is not there.
            self._say(401, {"X-Error-Code": "RepoNotFound"})
        elif revision not in (commit, "main"):
            self._say(404, {"X-Error-Code": "RevisionNotFound"})
        elif (repository, file) not in self.hub.files:
            self._say(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        else:
            data = self.hub.files[repository, file]
            headers = {
                "X-Repo-Commit": commit,
                "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
                "X-Linked-Size": str(len(data)),
                "ETag": '"0123"',
                "Location": f"{self.hub.store}/cdn/{repository}/{file}",
                **self.hub.more_headers,
                **fault.headers,
            }
            self._say(302, headers)

    def _store(self, name: str) -> None:
        fault = self._fault("CDN")
        if fault.status is not None:
            self._note("CDN", 0)
            self._say(fault.status, fault.headers)
            return
        repository, file = re.fullmatch(r"([^/]+/[^/]+)/(.+)", name).groups()  # type: ignore[union-attr]
        data = self.hub.files[repository, file] if fault.sends is None else fault.sends
        wanted = None if fault.whole else re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted else 0
        if wanted and start >= len(data):
            self._note("CDN", 0)
            self._say(416, {"Content-Range": f"bytes */{len(data)}"})
            return
        body = data[start:]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body)))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        end = len(body) if fault.cut is None else min(fault.cut, len(body))
        self._note("CDN", end)
        try:
            for at in range(0, end, _PIECE_BYTES):
                self.wfile.write(body[at : min(at + _PIECE_BYTES, end)])
                if fault.gate and at <= len(body) // 2 < at + _PIECE_BYTES:
                    fault.gate.reached.set()
                    fault.gate.opened.wait(60)
        except OSError:
            # The client has left, as some tests let it.
            self.close_connection = True
        if end < len(body):
            self.close_connection = True

    def _fault(self, step: Step) -> Fault:
        waiting = self.hub.faults[step]
        return waiting.pop(0) if waiting else Fault()

    def _note(self, step: Step, sent: int) -> None:
        authorised = self.headers.get("Authorization") is not None
        self.hub.requests.append(Request(step, self.path, self.headers.get("Range"), authorised, sent))

    def _say(self, status: int, headers: Mapping[str, str]) -> None:
        body = b"" if self.command == "HEAD" else json.dumps({"error": f"status {status}"}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

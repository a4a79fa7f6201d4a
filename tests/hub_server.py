"""A small hub on this machine: enough of the protocol for clients to read a folder as a repository."""

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REFUSALS = {
    "owner/gated": (403, "GatedRepo"),
    "owner/missing": (404, "RepoNotFound"),
    "owner/other-revision": (404, "RevisionNotFound"),
}


@contextmanager
def serve_hub(repos: dict[str, Path]) -> Generator[str, None, None]:
    """Serves folders by repository name, `REFUSALS` beside them; gives the address for HF_ENDPOINT."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"repos": repos}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repos: dict[str, Path]

    def do_HEAD(self):
        self.do_GET()

    def do_POST(self):
        # paths-info: what is known of the paths that are asked for
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["paths"]
        folder = self.repos["/".join(self.path.split("/")[3:5])]
        self._send(
            json.dumps([
                _entry(folder, folder / path) for path in asked if (folder / path).is_file()
            ]).encode()
        )

    def do_GET(self):
        path = self.path.split("?")[0].removeprefix("/")
        rest = path.removeprefix("api/").removeprefix("models/").removeprefix("datasets/")
        repo, action = "/".join(rest.split("/")[:2]), rest.split("/")[2:]
        if repo in REFUSALS and (action != ["auth-check"] or REFUSALS[repo][1] != "RevisionNotFound"):
            status, code = REFUSALS[repo]
            self._send(b"{}", status, {"X-Error-Code": code})
        elif repo in REFUSALS:
            self._send(b"{}")
        elif repo not in self.repos:
            self._send(b"{}", 404)
        elif action == ["auth-check"]:
            self._send(b"{}")
        elif action[:1] == ["revision"] or not action:
            files = [
                {"rfilename": str(file.relative_to(self.repos[repo]))} for file in _files(self.repos[repo])
            ]
            self._send(json.dumps({"id": repo, "sha": COMMIT, "siblings": files}).encode())
        elif action[0] == "tree":
            under = self.repos[repo].joinpath(*action[2:])
            self._send(json.dumps([_entry(self.repos[repo], file) for file in _files(under)]).encode())
        elif action[0] == "resolve" and (self.repos[repo].joinpath(*action[2:])).is_file():
            content = self.repos[repo].joinpath(*action[2:]).read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            self._send(content, headers=headers)
        else:
            self._send(b"{}", 404, {"X-Error-Code": "EntryNotFound"})

    def _send(self, content: bytes, status: int = 200, headers: dict[str, str] | None = None):
        asked = self.headers.get("Range")
        if asked and status == 200:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            total = len(content)
            content = content[int(first) : int(last or total - 1) + 1]
            status, headers = 206, {**(headers or {}), "Content-Range": f"bytes {first}-{last}/{total}"}
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _entry(folder: Path, file: Path) -> dict:
    return {
        "type": "file",
        "path": str(file.relative_to(folder)),
        "size": file.stat().st_size,
        "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
    }

"""Small data sets, a registry and an HTTP server on loopback that can misbehave."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

ROWS = {
    "train": [
        ("Haus", "case=nominative,number=singular", "Haus"),
        ("Haus", "case=dative,number=plural", "Häusern"),
        ("Maus", "case=nominative,number=plural", "Mäuse"),
        ("Tag", "case=nominative,number=plural", "Tage"),
    ],
    "dev": [("Laus", "case=nominative,number=plural", "Läuse")],
    "test": [("Rat", "case=dative,number=plural", "Räten")],
}


@pytest.fixture
def corpora() -> Path:
    """Return the folder of real corpora, laid out `<dataset>/<file>`."""
    folder = Path(os.environ.get("PAM_TEST_CORPORA", ROOT.parent / "shared" / "corpora"))
    if not folder.is_dir():
        pytest.skip("no real corpora here; PAM_TEST_CORPORA names their folder")
    return folder


def write_rows(path: Path, rows: list[tuple[str, ...]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def user_folder(tmp_path: Path) -> Path:
    """Make a user's folder: three files of real words and a registry that names them."""
    folder = tmp_path / "own data"
    folder.mkdir()
    for split, rows in ROWS.items():
        write_rows(folder / f"{split}.tsv", rows)
    (folder / "datasets.yaml").write_text(
        "my-nouns:\n"
        "  task: inflection\n"
        "  title: My nouns\n"
        "  licence: CC0\n"
        "  files:\n"
        "    train.tsv: {path: train.tsv}\n"
        "    dev.tsv: {path: dev.tsv}\n"
        "    test.tsv: {path: test.tsv}\n",
        encoding="utf-8",
    )

    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Return a function that writes a registry file of the given entries."""

    def written(entries: dict[str, Any]) -> Path:
        path = tmp_path / "registry.yaml"
        path.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
        return path

    return written


Behaviour = Callable[[BaseHTTPRequestHandler, int], None]


class Server:
    """Serves `answers[path]`, a function of the request and of how often it was made before."""

    def __init__(self) -> None:
        self.answers: dict[str, Behaviour] = {}
        self.asked: list[str] = []
        self.released = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                times = outer.asked.count(self.path)
                outer.asked.append(self.path)
                outer.answers.get(self.path, status(404))(self, times)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()

    def late(self, content: bytes) -> Behaviour:
        """Answer only when the test is over."""

        def behave(request: BaseHTTPRequestHandler, times: int) -> None:
            self.released.wait(60)

        return behave

    def trickle(self, content: bytes, wait_s: float) -> Behaviour:
        """Send byte by byte, with so many seconds between two."""

        def behave(request: BaseHTTPRequestHandler, times: int) -> None:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            for index in range(len(content)):
                request.wfile.write(content[index : index + 1])
                request.wfile.flush()
                if self.released.wait(wait_s):
                    return

        return behave


def status(code: int) -> Behaviour:
    return lambda request, times: request.send_error(code)


def whole(content: bytes) -> Behaviour:
    def behave(request: BaseHTTPRequestHandler, times: int) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return behave


def cut(content: bytes, after: int) -> Behaviour:
    """Promise all of `content` and close the connection in mid-transfer."""

    def behave(request: BaseHTTPRequestHandler, times: int) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[:after])

    return behave


def after_failures(failures: int, first: Behaviour, then: Behaviour) -> Behaviour:
    """Behave as `first` for so many requests, and as `then` from there on."""

    def behave(request: BaseHTTPRequestHandler, times: int) -> None:
        behaviour = first if times < failures else then
        behaviour(request, times)

    return behave


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()

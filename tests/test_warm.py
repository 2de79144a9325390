"""The server of imported modules by which tests start the package's commands."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.warm.client import request_of


def test_a_server_may_close_the_connection_once_it_has_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "socket")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    send_fds = socket.send_fds

    def sent_and_closed(*arguments: Any) -> int:
        sent = send_fds(*arguments)
        connection, _ = server.accept()
        _, streams, _, _ = socket.recv_fds(connection, 1024, maxfds=3)
        for stream in streams:
            os.close(stream)
        connection.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", sent_and_closed)
    request_of(path, {"preload": "folder"}, [1]).close()
    server.close()

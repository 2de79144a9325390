"""Downloads from a server that misbehaves: what is tried again, refused and left alone."""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from pathlib import Path

import pytest

from pam.data.download import Patience, UnavailableError, Wanted, download

from .conftest import Behaviour, Server, after_failures, cut, status, whole

CONTENT = "Haus\tcase=dative,number=plural\tHäusern\n".encode() * 2000
KNOWN = Wanted(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
QUICK = Patience(attempts=3, wait_s=0.01, timeout_s=0.3)


def fetched(server: Server, target: Path, behaviour: Behaviour, expected: Wanted = KNOWN) -> bytes:
    """Download a file from a server that behaves so; return its content."""
    server.answers["/f"] = behaviour
    download(target, expected, [f"{server.address}/f"], QUICK)
    return target.read_bytes()


def refused(server: Server, target: Path, behaviour: Behaviour, expected: Wanted = KNOWN) -> str:
    """Check that a download fails and leaves nothing behind; return the message."""
    with pytest.raises(UnavailableError) as caught:
        fetched(server, target, behaviour, expected)
    assert list(target.parent.iterdir()) == []
    return str(caught.value)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "file.tsv"


def test_a_whole_file_is_kept(server: Server, target: Path) -> None:
    assert fetched(server, target, whole(CONTENT)) == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.tsv"]


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_passing_fault_is_tried_again(server: Server, target: Path, code: int) -> None:
    assert fetched(server, target, after_failures(2, status(code), whole(CONTENT))) == CONTENT
    assert len(server.asked) == 3


def test_a_server_that_stays_broken_is_given_up_after_three_tries(
    server: Server, target: Path
) -> None:
    assert "HTTP status 500" in refused(server, target, status(500))
    assert len(server.asked) == 3


def test_a_missing_file_is_not_asked_for_twice(server: Server, target: Path) -> None:
    assert "HTTP status 404" in refused(server, target, status(404))
    assert len(server.asked) == 1


def test_a_late_answer_is_given_up(server: Server, target: Path) -> None:
    started = time.monotonic()
    assert "no answer within 0.3 s" in refused(server, target, server.late(CONTENT))
    assert time.monotonic() - started < 5


def test_a_connection_closed_in_mid_transfer_is_tried_again(server: Server, target: Path) -> None:
    behaviour = after_failures(1, cut(CONTENT, 5000), whole(CONTENT))
    assert fetched(server, target, behaviour) == CONTENT
    assert len(server.asked) == 2


def test_a_transfer_that_always_breaks_is_refused(server: Server, target: Path) -> None:
    assert "mid-transfer" in refused(server, target, cut(CONTENT, 5000))


def test_a_short_file_is_refused_though_the_server_calls_it_whole(
    server: Server, target: Path
) -> None:
    message = refused(server, target, whole(CONTENT[:-10]), Wanted(None, len(CONTENT)))
    assert f"cut short: {len(CONTENT) - 10} of {len(CONTENT)} bytes" in message


def test_other_content_is_refused_with_both_hashes(server: Server, target: Path) -> None:
    changed = CONTENT[:-2] + b"x\n"
    message = refused(server, target, whole(changed))
    assert "wrong hash" in message
    assert hashlib.sha256(changed).hexdigest() in message and str(KNOWN.sha256) in message
    assert len(server.asked) == 1


def test_more_bytes_than_expected_are_not_taken(server: Server, target: Path) -> None:
    assert f"longer than {len(CONTENT)} bytes" in refused(server, target, whole(CONTENT * 2))


def test_an_empty_answer_is_refused(server: Server, target: Path) -> None:
    assert "empty" in refused(server, target, whole(b""), Wanted())


def test_a_trickle_is_given_up(server: Server, target: Path) -> None:
    server.answers["/f"] = server.trickle(CONTENT, 0.1)
    slow = Patience(attempts=1, timeout_s=0.3, slowest=1e6)
    with pytest.raises(UnavailableError, match="too slow"):
        download(target, KNOWN, [f"{server.address}/f"], slow)


def test_the_next_address_is_asked_when_one_fails(server: Server, target: Path) -> None:
    server.answers["/wrong"] = whole(b"wrong")
    server.answers["/right"] = whole(CONTENT)
    addresses = [
        "http://127.0.0.1:9/closed",
        f"{server.address}/missing",
        f"{server.address}/wrong",
        f"{server.address}/right",
    ]
    messages: list[str] = []

    assert download(target, KNOWN, addresses, QUICK, messages.append) == addresses[-1]
    assert target.read_bytes() == CONTENT
    assert any("trying again" in line for line in messages)


def test_when_nothing_answers_every_reason_and_the_way_by_hand_are_told(target: Path) -> None:
    addresses = ["http://127.0.0.1:9/a", "/no/such/folder/file.tsv", "nonsense://x"]
    with pytest.raises(UnavailableError) as caught:
        download(target, KNOWN, addresses, QUICK)

    message = str(caught.value)
    assert all(address in message for address in addresses)
    assert str(target) in message and str(KNOWN.sha256) in message
    assert f"{len(CONTENT)} bytes" in message and "PAM_MIRROR" in message


def test_a_failed_download_leaves_the_old_file_alone(server: Server, target: Path) -> None:
    target.write_bytes(b"old")
    server.answers["/f"] = status(500)
    with pytest.raises(UnavailableError):
        download(target, KNOWN, [f"{server.address}/f"], QUICK)
    assert target.read_bytes() == b"old"


def zipped(name: str, content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, content)
    return archive.getvalue()


def test_a_file_can_come_out_of_an_archive(server: Server, target: Path) -> None:
    server.answers["/a.zip"] = whole(zipped("deep/words.tsv", CONTENT))
    address = f"{server.address}/a.zip#deep/words.tsv"
    assert download(target, KNOWN, [address], QUICK) == address
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.tsv"]


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (zipped("other.tsv", CONTENT), "the archive has no file `words.tsv`"),
        (zipped("words.tsv", CONTENT)[:-30], "damaged or cut short"),
        (zipped("words.tsv", CONTENT[1:]), "cut short"),
        (zipped("words.tsv", CONTENT + b"x"), f"longer than {len(CONTENT)} bytes"),
        (zipped("words.tsv", CONTENT[:-1] + b"x"), "wrong hash"),
    ],
    ids=["missing", "cut archive", "short", "long", "other content"],
)
def test_an_archive_without_the_right_file_is_refused(
    server: Server, target: Path, archive: bytes, message: str
) -> None:
    server.answers["/a.zip"] = whole(archive)
    with pytest.raises(UnavailableError, match=message):
        download(target, KNOWN, [f"{server.address}/a.zip#words.tsv"], QUICK)
    assert list(target.parent.iterdir()) == []


def test_an_md5_serves_where_no_more_is_known(server: Server, target: Path) -> None:
    expected = Wanted(md5=hashlib.md5(CONTENT, usedforsecurity=False).hexdigest())
    message = refused(server, target, whole(CONTENT[1:]), expected)
    assert "wrong hash: MD5" in message and f"MD5 {expected.md5}" in message
    assert fetched(server, target, whole(CONTENT), expected) == CONTENT

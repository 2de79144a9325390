"""A mirror on loopback that misbehaves, asked by the whole command `fetch`."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Recorder
from tests.data.conftest import Behaviour, Server, after_failures, cut, status, whole
from tests.faults.conftest import Scene
from tests.faults.runs import results
from tests.workflow.checkouts import Checkout, Outcome

CONTENT = "Haus\tcase=dative,number=plural\tHäusern\n".encode() * 500
PATH = "/small/words.tsv"
REFUSED = "one message with the address and the reason, exit code 2, nothing left behind"


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def registry(folder: Path, hashes: str) -> Path:
    path = folder / "datasets.yaml"
    path.write_text(
        "small:\n  task: inflection\n  title: Nouns\n  licence: none\n  obtain: from the mirror\n"
        "  splits: {train: words.tsv, dev: words.tsv, test: words.tsv}\n"
        f"  files:\n    words.tsv: {{{hashes}}}\n",
        encoding="utf-8",
    )

    return path


HASHED = f"sha256: {hashlib.sha256(CONTENT).hexdigest()}, bytes: {len(CONTENT)}"


def fetch(
    folder: Path, mirror: str, hashes: str = HASHED, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Fetch `words.tsv` into `folder/data` by the command line."""
    options = ["--dataset", "small", "--registry", str(registry(folder, hashes))]
    return subprocess.run(
        [sys.executable, "-m", "pam", "fetch", *options, "--out", "data", "--mirror", mirror],
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def files(folder: Path) -> set[str]:
    """List the files in the folder of the data set, but for the lock."""
    return {path.name for path in (folder / "data").iterdir()} - {".lock"}


def refused(folder: Path, server: Server, behaviour: Behaviour, hashes: str = HASHED) -> str:
    """Return the message about a file that the mirror does not give."""
    server.answers[PATH] = behaviour
    done = fetch(folder, server.address, hashes)

    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert f"{server.address}{PATH}: " in done.stderr
    assert files(folder) == set()

    return done.stderr


def redirect(target: str) -> Behaviour:
    def behave(request: Any, times: int) -> None:
        request.send_response(302)
        request.send_header("Location", target)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return behave


FINAL = {
    "404": (status(404), "HTTP status 404", 1),
    "wrong content": (whole(CONTENT[:-2] + b"x\n"), "wrong hash", 1),
    "larger than known": (whole(CONTENT * 2), f"longer than {len(CONTENT)} bytes", 1),
    "a redirect loop": (redirect(PATH), "Exceeded 30 redirects", 31),
}
PASSING = {
    "500": (status(500), "HTTP status 500", 3),
    "closed in mid-transfer": (cut(CONTENT, 5000), "closed in mid-transfer", 3),
    "short": (whole(CONTENT[:-10]), "cut short", 3),
    "empty": (whole(b""), "cut short: 0 of", 3),
}
SLOW = [pytest.param(name, marks=pytest.mark.faults) for name in PASSING if name != "500"]


@pytest.mark.parametrize("fault", FINAL)
def test_what_will_not_pass_is_refused_at_once(
    tmp_path: Path, server: Server, record: Recorder, fault: str
) -> None:
    behaviour, message, asked = FINAL[fault]
    assert message in refused(tmp_path, server, behaviour)
    assert len(server.asked) == asked

    record(fault=f"the mirror answers: {fault}", showed=f"{REFUSED}; not asked again")


@pytest.mark.parametrize("fault", ["500", *SLOW])
def test_what_may_pass_is_tried_three_times_and_then_refused(
    tmp_path: Path, server: Server, record: Recorder, fault: str
) -> None:
    behaviour, message, asked = PASSING[fault]
    output = refused(tmp_path, server, behaviour)

    assert message in output
    assert output.count("trying again") == asked - 1
    assert len(server.asked) == asked

    record(fault=f"the mirror answers: {fault}, each time", showed=f"{REFUSED}; tried three times")


@pytest.mark.parametrize("fault", ["closed in mid-transfer", SLOW[1]])
def test_what_passes_is_forgotten(
    tmp_path: Path, server: Server, record: Recorder, fault: str
) -> None:
    server.answers[PATH] = after_failures(2, PASSING[fault][0], whole(CONTENT))
    done = fetch(tmp_path, server.address)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data/words.tsv").read_bytes() == CONTENT
    assert files(tmp_path) == {"words.tsv", "record.json"}

    record(fault=f"the mirror answers: {fault}, twice", showed="the third try brings the file")


@pytest.mark.faults
@pytest.mark.parametrize("fault", ["late", "a byte a second"])
def test_a_mirror_that_is_too_slow_is_given_up_within_minutes(
    tmp_path: Path, server: Server, record: Recorder, fault: str
) -> None:
    slow = {"late": server.late(CONTENT), "a byte a second": server.trickle(CONTENT, 1.0)}
    message = {"late": "no answer within 20 s", "a byte a second": "too slow"}

    assert message[fault] in refused(tmp_path, server, slow[fault])

    record(fault=f"the mirror answers: {fault}", showed=f"{REFUSED}; within three tries of 20 s")


def test_a_size_that_nobody_knows_is_bounded_too(
    tmp_path: Path, server: Server, record: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pam.data import download

    monkeypatch.setattr(download, "LARGEST", 1000)
    server.answers[PATH] = whole(CONTENT)
    target = tmp_path / "words.tsv"

    with pytest.raises(download.UnavailableError, match="longer than 1000 bytes"):
        download.download(target, download.Wanted(), [f"{server.address}{PATH}"])

    assert list(tmp_path.iterdir()) == []

    record(
        fault="the mirror answers: without end, where no size is known",
        showed="given up at the bound (8 GB; 1,000 bytes in the test), nothing left behind",
    )


@pytest.fixture
def secure(tmp_path: Path, server: Server) -> Server:
    """Serve the same over https, with a certificate of its own."""
    key = tmp_path / "key.pem"
    certificate = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext"

    try:
        subprocess.run(
            [*command.split(), "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("no openssl here to make a certificate")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    server.address = server.address.replace("http:", "https:")

    return server


def test_an_https_address_that_leads_to_http_is_refused(
    tmp_path: Path, secure: Server, record: Recorder
) -> None:
    plain = Server()
    try:
        plain.answers["/plain"] = whole(CONTENT)
        secure.answers[PATH] = redirect(f"{plain.address}/plain")
        bundle = {"REQUESTS_CA_BUNDLE": str(tmp_path / "certificate.pem")}
        done = fetch(tmp_path, secure.address, **bundle)

        assert done.returncode == 2
        assert "leads to http://127.0.0.1" in done.stderr
        assert files(tmp_path) == set()

        secure.answers[PATH] = whole(CONTENT)
        assert fetch(tmp_path, secure.address, **bundle).returncode == 0

        (tmp_path / "other").mkdir()
        strange = fetch(tmp_path / "other", secure.address)

        assert "not reachable, or the connection broke (SSLError)" in strange.stderr
    finally:
        plain.close()

    record(
        fault="https that leads to http, and a certificate that nobody vouches for",
        showed=REFUSED,
        tried=2,
    )


@pytest.mark.slow
@pytest.mark.faults
def test_a_run_whose_mirror_fails_goes_on_when_it_is_mended(
    scene: Scene, undisturbed: tuple[Checkout, Outcome], mirror: Server, record: Recorder
) -> None:
    right = mirror.answers["/small/dev.tsv"]
    mirror.answers["/small/dev.tsv"] = status(404)
    outcome = scene.run()

    assert outcome.code != 0
    assert outcome.said.count("error: ") == 1
    assert "HTTP status 404" in outcome.said and "Traceback" not in outcome.said

    mirror.asked.clear()
    mirror.answers["/small/dev.tsv"] = right

    assert scene.run().code == 0
    assert "/small/train.tsv" not in mirror.asked
    assert results(scene.made) == results(undisturbed[0])

    record(
        fault="the mirror fails in the midst of a run",
        showed="one message; mended, the next plain call fetches the rest and nothing else, and "
        "ends with bit-identical results",
    )

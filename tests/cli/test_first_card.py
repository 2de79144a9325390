"""`benchmarks/first_card.sh` goes through its parts, whatever they do, and keeps a record."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/first_card.sh"
PYTHON = """#!/bin/sh
echo "$@"
case "$*" in
*"-m pytest"* | *pytest.main*) exit 1 ;;
*gpu.py*) {measuring} ;;
esac
"""


def started(
    folder: Path, *options: str, measuring: str = "exit 0", device: str = "cpu"
) -> subprocess.Popen[str]:
    """Start the script with a Python that fails in all tests, and measures nothing."""
    python = folder / "python"
    python.write_text(PYTHON.format(measuring=measuring), encoding="utf-8")
    python.chmod(0o755)
    environment = os.environ | {
        "PYTHON": str(python),
        "FIRST_CARD_DATA": str(folder / "data"),
        "PEERS": str(folder / "no peers"),
        "PAM_MIRROR": str(folder / "no mirror"),
    }
    return subprocess.Popen(
        ["sh", str(SCRIPT), *options, device, str(folder / "out")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def headings(folder: Path) -> list[str]:
    """Return the number and the outcome of each part in the record, in their order."""
    record = (folder / "out/record.md").read_text(encoding="utf-8")
    return [line[3:] for line in record.splitlines() if line.startswith("## ")]


def begin(lines: Sequence[str], words: Sequence[str]) -> bool:
    return len(lines) == len(words) and all(map(str.startswith, lines, words))


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_parts_that_fail_do_not_stop_the_others(tmp_path: Path) -> None:
    """If recorded steps are wrong, two more parts tell whether it is by cuDNN."""
    process = started(tmp_path, "--parts", "2 3 5 9")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors

    record = (tmp_path / "out/record.md").read_text(encoding="utf-8")
    assert output == record
    parts = headings(tmp_path)
    assert begin(parts, ["2.", "2a.", "2b.", "data-translation", "3.", "5.", "Outcome"]), parts
    assert "failed with status 1" in parts[0]
    assert "passed" in parts[4]
    assert "no peers" in record

    with tarfile.open(tmp_path / "out/parts.tar") as kept:
        assert "part-3/log" in kept.getnames()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"record.md", "parts.tar"}


def test_a_script_that_is_stopped_ends_with_its_record(tmp_path: Path) -> None:
    """The part in its midst ends with it, and its files are kept."""
    pid_file = tmp_path / "pid"
    measuring = f'echo $$ >"{pid_file}"; exec sleep 60'
    process = started(tmp_path, "--parts", "3 5", measuring=measuring)
    until = time.monotonic() + 120
    while not (pid_file.exists() and pid_file.read_text(encoding="utf-8").strip()):
        assert time.monotonic() < until
        time.sleep(0.02)

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)

    parts = headings(tmp_path)
    assert begin(parts, ["data-translation", "3.", "Outcome"]), parts
    assert "stopped from outside" in parts[1]
    with tarfile.open(tmp_path / "out/parts.tar") as kept:
        assert "part-3/log" in kept.getnames()
    while exists(int(pid_file.read_text(encoding="utf-8"))):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_no_part_begins_when_the_time_is_up(tmp_path: Path) -> None:
    process = started(tmp_path, "--total", "0", "--parts", "1 3 6")
    process.communicate(timeout=120)
    assert process.returncode == 0
    parts = headings(tmp_path)
    assert all("the time is up" in part for part in parts[:-1]), parts


def test_a_card_without_data_gets_text_that_is_drawn_and_the_record_says_why(
    tmp_path: Path,
) -> None:
    process = started(tmp_path, "--parts", "3", device="cuda")
    process.communicate(timeout=120)
    record = (tmp_path / "out/record.md").read_text(encoding="utf-8")
    parts = headings(tmp_path)
    assert begin(parts, ["data-translation", "data-translation-drawn", "3.", "Outcome"]), parts
    assert "drawn-translation" in record

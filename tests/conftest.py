"""What every test begins with, and the record of the faults that tests tried."""

from __future__ import annotations

import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.long_forms import ask_for

# Networks here are so small that threads within one step only wait for each other. Set before
# torch is imported, and inherited by every process that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")

Recorder = Callable[..., None]
LONGEST = ("slurm", "workflow", "faults")  # folders whose files take longest
LONG_FILES = (  # and the longest files of each folder
    "test_interruptions.py",
    "test_reruns.py",
    "test_translated.py",
    "test_special_models.py",
    "test_plans.py",
    "test_elsewhere.py",
    "test_newcomer.py",
    "test_processors.py",
    "test_teacher_forcing.py",
    "test_output_layer.py",
    "test_first_losses.py",
    "test_docs.py",
    "test_figures.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--records",
        type=Path,
        help="write what the tests recorded to this JSON file; with --lf, add it to what is there",
    )


def pytest_configure(config: pytest.Config) -> None:
    ask_for(config.getoption("markexpr"))
    # Nothing of what is imported and collected is garbage.
    gc.disable()

    file = config.getoption("--records")
    # Of several test processes, the one that hears of all tests.
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Records(file, goes_on=bool(config.getoption("lf"))))


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of all searches for garbage while tests run."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest first, so that no process is left alone with one of them at the end."""
    items.sort(key=lambda item: rank_of(item.path))


def rank_of(file: Path) -> tuple[int, int]:
    """Return the rank of a test file among all: by its folder, then by itself."""
    return rank_in(LONGEST, file.parent.name), rank_in(LONG_FILES, file.name)


def rank_in(names: tuple[str, ...], name: str) -> int:
    """Return the index of a name; one that is not among the names comes after them."""
    return [*names, name].index(name)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Recorder:
    """Note what a test has tried and what it showed: `record(fault=, showed=, tried=, where=)`.

    Called at a test's end, so that only what was survived is noted. `docs/reliability.md` has one
    entry for each test and fault: the calls of all parameters of a test are added up. `where`: at
    which step of the workflow the fault struck; the page says how often at each.
    """

    def noted(*, fault: str, showed: str, tried: int = 1, where: str | None = None) -> None:
        entry = {"fault": fault, "tried": tried, "showed": showed, "where": where}
        request.node.user_properties.append(("fault", entry))

    return noted


class Records:
    """Gathers the records of the tests that passed, and why others were left out.

    Args:
        goes_on: adds to what a run left in the file some of whose tests failed: those are tried
            once more, and the half an hour that the others took is not lost.
    """

    def __init__(self, file: Path, goes_on: bool) -> None:
        self.file = file
        self.began = time.monotonic()
        self.records: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self.failed: set[str] = set()
        self.before = 0.0

        if goes_on and file.is_file():
            self._go_on(json.loads(file.read_text(encoding="utf-8")))

    def _go_on(self, content: dict[str, Any]) -> None:
        self.before = content["minutes"]
        self.skipped = content["skipped"]
        self.failed = set(content.get("failed", ()))

        for entry in content["records"]:
            key = entry["test"], entry["fault"], entry["showed"]
            self.records[key] = entry | {"where": Counter(entry["where"])}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call":
            self.failed.discard(report.nodeid)

        if report.skipped:
            assert isinstance(report.longrepr, tuple)

            self.skipped[test] = report.longrepr[2].removeprefix("Skipped: ")

        if report.when == "call" and report.passed:
            for name, entry in report.user_properties:
                if name == "fault":
                    self.add(test, **entry)

    def add(self, test: str, fault: str, tried: int, showed: str, where: str | None) -> None:
        new = {"test": test, "fault": fault, "tried": 0, "showed": showed, "where": Counter()}
        entry = self.records.setdefault((test, fault, showed), new)
        entry["tried"] += tried

        if where is not None:
            entry["where"][where] += 1

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return

        content = {
            "date": time.strftime("%Y-%m-%d"),
            "minutes": round(self.before + (time.monotonic() - self.began) / 60, 1),
            "cores": os.cpu_count(),
            "versions": {name: version(name) for name in ("snakemake", "torch")},
            "records": sorted(
                self.records.values(), key=lambda entry: (entry["test"], entry["fault"])
            ),
            "skipped": dict(sorted(self.skipped.items())),
            "failed": sorted(self.failed),
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

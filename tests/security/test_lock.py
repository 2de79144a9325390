"""What is installed is what the lock says, by version and by hash, and an audit would notice."""

from __future__ import annotations

import runpy
import shutil
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.checkouts import ROOT


@pytest.fixture(scope="module")
def audit() -> dict[str, Any]:
    """Load the functions of envs/audit.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "envs"))
        return runpy.run_path(str(ROOT / "envs/audit.py"), run_name="audit")


@pytest.fixture
def package(tmp_path: Path) -> PathDistribution:
    """Copy a small installed package into a folder of its own."""
    installed = distribution("iniconfig")
    for file in installed.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), tmp_path / file)

    (copy,) = tmp_path.glob("*.dist-info")
    return PathDistribution(copy)


def test_the_lock_has_hashes_of_every_package_but_torch(audit: dict[str, Any]) -> None:
    pins = audit["read_lock"]()
    assert len(pins) > 100 and not list(audit["without_hashes"](pins))
    assert [name for name, pin in pins.items() if not pin.hashes] == ["torch"]


def test_make_installs_nothing_but_what_the_lock_knows_by_hash() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "LOCKED := $(PIP) --no-deps --require-hashes --requirement\n" in text

    by_hash = ("-build.txt", ".txt --no-build-isolation")
    assert all(f"@$(LOCKED) envs/requirements{ending}\n" in text for ending in by_hash)

    lines = [line.strip() for line in text.splitlines()]
    without_hash = {line for line in lines if line.startswith("@$(PIP)")}

    assert without_hash == {
        "@$(PIP) --requirement envs/requirements-torch.txt",
        "@$(PIP) --no-deps --no-build-isolation --editable .",
    }


def test_a_pin_without_a_hash_is_a_fault(audit: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("a==1 \\\n    --hash=sha256:00\nb==2\n")
    pins = audit["read_lock"](tmp_path, ("lock.txt",))

    assert list(audit["without_hashes"](pins)) == ["b: the lock knows no hash"]


def test_another_version_and_a_package_beside_are_faults(
    audit: dict[str, Any], package: PathDistribution
) -> None:
    pin = audit["Pin"]
    installed = {"iniconfig": package}

    assert not list(audit["differences"]({"iniconfig": pin(package.version, 1)}, installed))
    assert list(
        audit["differences"]({"iniconfig": pin("0.1", 1), "x": pin("1", 1)}, installed)
    ) == [
        f"iniconfig: {package.version} is here, not 0.1",
        "x: nothing is here, not 1",
    ]
    assert list(audit["differences"]({}, installed)) == ["iniconfig: is here, but not in the lock"]


def test_a_file_that_was_changed_or_is_gone_is_a_fault(
    audit: dict[str, Any], package: PathDistribution, tmp_path: Path
) -> None:
    assert not list(audit["changed"](package))

    file = tmp_path / "iniconfig/__init__.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    assert list(audit["changed"](package)) == [f"iniconfig: {file} has been changed"]

    file.unlink()
    assert list(audit["changed"](package)) == [f"iniconfig: {file} is gone"]


def test_a_requirement_that_nothing_meets_is_a_fault(audit: dict[str, Any]) -> None:
    installed = {"pandas": distribution("pandas")}
    assert any(line.startswith("pandas: requires numpy") for line in audit["unmet"](installed))

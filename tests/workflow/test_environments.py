"""The lock is complete, the conda file agrees with it, and the project's ranges hold its pins."""

from __future__ import annotations

import runpy
import sys
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.workflow.checkouts import ROOT

sys.path.insert(0, str(ROOT / "envs"))
LOCK = runpy.run_path(str(ROOT / "envs/lock.py"), run_name="lock")
AUDIT = runpy.run_path(str(ROOT / "envs/audit.py"), run_name="audit")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(*names: str) -> dict[str, str]:
    """Return the version of each package of lock files that are for this Python."""
    return {name: pin.version for name, pin in AUDIT["read_lock"](names=names).items()}


USER = pins("requirements-build.txt", "requirements.txt", "requirements-torch.txt")
ALL = USER | pins("requirements-dev.txt")


def test_torch_is_asked_for_by_its_plain_version() -> None:
    assert pins("requirements-torch.txt") == {"torch": "2.13.0"}


def test_the_conda_file_has_the_versions_of_the_lock() -> None:
    conda = yaml.safe_load((ROOT / "envs/environment.yaml").read_text(encoding="utf-8"))
    (listed,) = (item["pip"] for item in conda["dependencies"] if isinstance(item, dict))
    versions = dict(line.split("==") for line in listed)
    # Its Python is 3.11, whichever this one is.
    newer = LOCK["NEWER_PYTHON"]

    assert versions.keys() == USER.keys()
    assert {name for name in versions if versions[name] != USER[name]} <= newer.keys()


def test_everything_the_project_asks_for_is_pinned_within_its_range() -> None:
    extras = dict(PROJECT["optional-dependencies"])
    # `make transformers` installs it, in any of several versions.
    del extras["hf"]
    asked = [*PROJECT["dependencies"], *(text for extra in extras.values() for text in extra)]
    for requirement in map(Requirement, asked):
        version = ALL.get(canonicalize_name(requirement.name))
        assert version is not None, requirement.name
        assert requirement.specifier.contains(version), requirement


def test_everything_that_a_pinned_package_requires_is_pinned_within_its_range() -> None:
    for name in ALL:
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if name in LOCK["DATA_ONLY"] or installed.version.split("+")[0] != ALL[name]:
            continue
        for requirement in map(Requirement, installed.requires or ()):
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            needed = canonicalize_name(requirement.name)
            assert needed in ALL, f"{name} requires {needed}"
            assert requirement.specifier.contains(ALL[needed], prereleases=True), (
                f"{name} requires {requirement}, the lock has {ALL[needed]}"
            )


def test_a_missing_transitive_package_would_be_noticed() -> None:
    assert {"jinja2", "pygments", "snakemake-interface-common"} <= USER.keys()


def test_ranges_are_open_upwards_so_that_another_torch_will_do() -> None:
    assert "torch>=2.6" in PROJECT["dependencies"]
    assert PROJECT["requires-python"] == ">=3.11"

    for text in PROJECT["dependencies"]:
        assert {s.operator for s in Requirement(text).specifier} == {">="}


@pytest.mark.parametrize("name", ["python", "user", "dev", "locked"])
def test_the_makefile_leaves_a_mark_for_each_step(name: str) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"$(VENV)/{name}:" in text

"""The wheel, made from the source distribution, is the whole tool in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import pam
from tests.data.test_own_files import paradigms
from tests.workflow.checkouts import ROOT

pytestmark = pytest.mark.slow

SHIPPED = ("workflow", "config", "envs", "profiles", "cluster")
SMALL = "device: cpu\nnetwork: {embedding: 8, encoder: 8, decoder: 16}\ntraining: {epochs: 1}\n"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make the source distribution, and the wheel from its content alone."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, "sdist", folder)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")

    build(folder / source.name.removesuffix(".tar.gz"), "wheel", folder)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def build(project: Path, target: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run([*command, "--directory", str(folder)], cwd=project, check=True)


class Installed:
    """The installed commands, called in a folder of work."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin = environment / "bin"
        self.folder = folder

    def call(self, *words: str, typed: str = "") -> str:
        """Call `pam` as a user does who has not activated the environment; return its output."""
        left_out = {"PYTHONPATH", "VIRTUAL_ENV"}
        settings = {name: value for name, value in os.environ.items() if name not in left_out}
        done = subprocess.run(
            [str(self.bin / "pam"), *words],
            cwd=self.folder,
            env=settings,
            input=typed,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which sees the packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, *options, str(distributions[1])], check=True)

    (own_packages,) = folder.glob("lib/python*/site-packages")
    # A line names a folder in which no .pth is read: the checkout is not to be found.
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (own_packages / "beside.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    return Installed(environment, tmp_path)


def files_below(folder: Path, start: str = "") -> set[str]:
    """Return the names of the files in a folder, but for what Python has compiled."""
    names = {f"{start}{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if "__pycache__" not in name}


def test_the_wheel_has_the_package_and_the_workflow_as_they_are_and_nothing_else(
    distributions: tuple[Path, Path],
) -> None:
    with zipfile.ZipFile(distributions[1]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    expected = files_below(ROOT / "pam", "pam/")
    for part in SHIPPED:
        expected |= files_below(ROOT / part, f"pam/shipped/{part}/")
    assert packed == expected


def test_the_version_is_the_same_everywhere(distributions: tuple[Path, Path]) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == pam.__version__
    for path in distributions:
        assert path.name.startswith(f"posterior_attention-{pam.__version__}")


def test_an_installed_model_predicts(installed: Installed) -> None:
    source = "Apfelbaum\tcase=nominative,number=plural\n"
    predicted = installed.call("predict", "--pretrained", "nouns/postr-joint", typed=source)
    assert predicted == "Apfelbäume\n"


@pytest.mark.parametrize("extent", ["plan", pytest.param("whole", marks=pytest.mark.faults)])
def test_own_data_become_an_experiment_in_an_empty_folder(
    installed: Installed, extent: str
) -> None:
    (installed.folder / "my").mkdir()
    (installed.folder / "my/nouns.tsv").write_text(paradigms(60), encoding="utf-8")

    described = installed.call("data", "new", "my/nouns.tsv")
    experiment = re.search(r"^experiment: .*?\n\n", described, re.MULTILINE | re.DOTALL)
    command = re.search(r"^ +pam (run .*)$", described, re.MULTILINE)
    assert experiment is not None and command is not None
    (installed.folder / "nouns.yaml").write_text(experiment[0] + SMALL, encoding="utf-8")

    # It begins with what `check` says.
    words = command[1].split()
    planned = installed.call(*words, "--dry-run")
    assert planned.startswith("==> in all about ")
    assert re.search(r"^train_run +2$", planned, re.MULTILINE), planned

    if extent == "whole":
        said = installed.call(*words)
        assert "==> done: results/nouns/index.html" in said
        assert (installed.folder / "results/nouns/index.html").is_file()
        assert (installed.folder / "results/nouns/report.html").is_file()

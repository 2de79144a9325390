"""Writes the lock files beside it from the packages that this Python has installed.

    python envs/lock.py

`requirements.txt` is what a user needs, `requirements-dev.txt` what tests and checks need besides.
Each names every package, so that pip need not resolve anything, and the hashes of all files of that
version, so that pip takes no other on any platform; uv asks the package index for them. Apart stand

- `requirements-build.txt`: what builds this package, and those that come as source alone. It goes
  first, since pip would fetch whatever a source asks for, unpinned, to build it in a place of its
  own;
- `requirements-torch.txt`, without hashes: one version has a build for each kind of processor and
  GPU, and which of them is right, a machine's own index says.

`environment.yaml` has the versions as a conda environment, which cannot hold hashes. To move to
newer versions, install them (`pip install -U -e '.[nouns,...]'`) and `uv`, run the tests, then run
this.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
USER_EXTRAS = ("nouns", "summarization", "translation")
TORCH = ("torch",)
# What packages that come as source are built with, if they do not say so.
BUILDS_SOURCES = "setuptools"

DATA_ONLY = frozenset({"german-nouns"})
"""Packages of which only a data file is read, so that what their code requires is left out.

The parser that german-nouns brings along is not used.
"""

NEWER_PYTHON = {"lxml": ('python_version >= "3.13"', "6.1.3")}
"""Pins for newer Pythons: that parser holds lxml at a version without wheels for them."""


OLDER_PYTHON = {"backports-zstd": 'python_version < "3.14"'}
"""Packages whose content newer Pythons have themselves, and which those do not take."""


def closure(requirements: list[str]) -> dict[str, str]:
    """Name and version of all packages that `requirements` ask for, directly or not."""
    pins: dict[str, str] = {}
    waiting = [(Requirement(text), "") for text in requirements]
    done: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        installed = metadata.distribution(name)
        # A local label such as +cpu is the build's, not the version's.
        pins[name] = installed.version.split("+")[0]
        if name in DATA_ONLY:
            continue
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in done:
                done.add((name, wanted))
                waiting.extend((Requirement(text), wanted) for text in installed.requires or ())
    return pins


def wanted(pyproject: Path) -> tuple[list[str], list[str], list[str]]:
    """What the project asks for: to be built, for its users, and for its developers besides."""
    content = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    project = content["project"]
    extras = project["optional-dependencies"]
    build = [BUILDS_SOURCES, *content["build-system"]["requires"]]
    user = project["dependencies"] + [text for name in USER_EXTRAS for text in extras[name]]
    return build, user, extras["dev"]


def lines(pins: dict[str, str]) -> list[str]:
    """`name==version`, sorted; with a condition where newer Pythons need another version."""
    result = []
    for name, version in sorted(pins.items()):
        if name in NEWER_PYTHON:
            newer, other = NEWER_PYTHON[name]
            older = newer.replace(">=", "<")
            result += [f"{name}=={version} ; {older}", f"{name}=={other} ; {newer}"]
        elif name in OLDER_PYTHON:
            result.append(f"{name}=={version} ; {OLDER_PYTHON[name]}")
        else:
            result.append(f"{name}=={version}")
    return result


def with_hashes(pins: dict[str, str]) -> list[str]:
    """The same lines, each with the hashes that the index gives for the files of that version.

    Raises:
        subprocess.CalledProcessError: the index does not answer, or lacks a version.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-deps"]
    command += ["--generate-hashes", "--no-header", "--no-annotate"]
    # For every platform, and for each Python from the oldest on.
    command += ["--universal", "--python-version", "3.11"]
    done = subprocess.run(
        command, input="\n".join(lines(pins)), stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


def write(folder: Path) -> None:
    """Writes the five files."""
    build, user, dev = map(closure, wanted(FOLDER.parent / "pyproject.toml"))
    pins = user | build
    first = build.keys() | set(TORCH)
    files = {
        "build": with_hashes(build),
        "torch": lines({name: pins[name] for name in TORCH}),
        "": with_hashes({name: pins[name] for name in user.keys() - first}),
        "dev": with_hashes({name: dev[name] for name in dev.keys() - pins.keys()}),
    }
    for name, listed in files.items():
        head = "# Written by envs/lock.py, which says how the files belong together.\n"
        file = folder / f"requirements{name and '-'}{name}.txt"
        file.write_text("\n".join([head, *listed, ""]), encoding="utf-8")
    conda = ["# Written by envs/lock.py: the versions of the requirements.", "name: pam"]
    conda += ["channels:", "  - conda-forge", "  - nodefaults", "dependencies:"]
    conda += ["  - python=3.11", "  - pip", "  - pip:"]
    conda += [f"      - {name}=={version}" for name, version in sorted(pins.items())]
    (folder / "environment.yaml").write_text("\n".join([*conda, ""]), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

"""Writes the lock files beside it from the packages that this Python has installed.

    python envs/lock.py

`requirements.txt` is what a user needs, `requirements-dev.txt` what tests and checks need besides,
`environment.yaml` the first as a conda environment. Each names every package, so that pip need not
resolve anything. To move to newer versions, install them (`pip install -U -e '.[nouns,...]'`), run
the tests, then run this.
"""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
USER_EXTRAS = ("nouns", "translation", "workflow")

DATA_ONLY = frozenset({"german-nouns"})
"""Packages of which only a data file is read, so that what their code requires is left out.

The parser that german-nouns brings along is not used.
"""

NEWER_PYTHON = {"lxml": ('python_version >= "3.13"', "6.1.3")}
"""Pins for newer Pythons: that parser holds lxml at a version without wheels for them."""


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


def wanted(pyproject: Path) -> tuple[list[str], list[str]]:
    """What the project asks for: for its users, and for its developers besides."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    user = project["dependencies"] + [text for name in USER_EXTRAS for text in extras[name]]
    return user, extras["dev"]


def lines(pins: dict[str, str]) -> list[str]:
    """`name==version`, sorted; with a condition where newer Pythons need another version."""
    result = []
    for name, version in sorted(pins.items()):
        if name in NEWER_PYTHON:
            newer, other = NEWER_PYTHON[name]
            older = newer.replace(">=", "<")
            result += [f"{name}=={version} ; {older}", f"{name}=={other} ; {newer}"]
        else:
            result.append(f"{name}=={version}")
    return result


def write(folder: Path) -> None:
    """Writes the three files."""
    user, dev = wanted(FOLDER.parent / "pyproject.toml")
    pins = closure(user)
    more = {name: version for name, version in closure(dev).items() if name not in pins}
    head = "# Written by envs/lock.py: every package, to be installed with `pip install --no-deps`"
    torch = "# after `pip install torch==...` by this very version, for what its build needs.\n"
    pinned = lines(pins)
    (folder / "requirements.txt").write_text(
        "\n".join([head, torch, *pinned, ""]), encoding="utf-8"
    )
    (folder / "requirements-dev.txt").write_text(
        "\n".join([head, "# and after requirements.txt.\n", *lines(more), ""]), encoding="utf-8"
    )
    conda = ["# Written by envs/lock.py: the versions of requirements.txt.", "name: pam"]
    conda += ["channels:", "  - conda-forge", "  - nodefaults", "dependencies:"]
    conda += ["  - python=3.11", "  - pip", "  - pip:"]
    conda += [f"      - {name}=={version}" for name, version in sorted(pins.items())]
    (folder / "environment.yaml").write_text("\n".join([*conda, ""]), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

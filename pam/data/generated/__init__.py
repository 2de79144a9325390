"""Data sets drawn from the data that an installed Python package holds, a generator for each.

A generator is a pydantic model whose fields are what one can choose, under `package: options:` in a
registry; `draw` gives file names and their texts, the same for the same version and options.
"""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution

from pam.data.generated.cldr import Cldr
from pam.data.generated.german_nouns import GermanNouns
from pam.io import UserError, unknown

GENERATORS: dict[str, type[Cldr] | type[GermanNouns]] = {"babel": Cldr, "german-nouns": GermanNouns}
"""Name of the package to its generator."""


def find_generator(package: str) -> type[Cldr] | type[GermanNouns]:
    """The generator for a package.

    Raises:
        UserError: there is none; names the closest.
    """
    if package not in GENERATORS:
        raise unknown("package", package, sorted(GENERATORS))
    return GENERATORS[package]


def installed(name: str, version: str) -> Distribution:
    """The installed package, in whatever version, without importing it.

    Raises:
        UserError: it is not installed; the hint installs `version`.
    """
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise UserError(f"the package {name} is not installed", hint=f"pip install {name}=={version}") from error

"""Data sets drawn from what an installed Python package carries; a module per package."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Protocol, cast

from pam import plugins
from pam.io import Strict, UserError


class PackageData(Protocol):
    """What a module of this folder offers."""

    Options: type[Strict]
    """What one can choose, under `package: options:` in a registry."""

    def draw(self, package: Distribution, options: Any) -> dict[str, str]:
        """File names and their texts, the same for the same version and options."""


def load_package(name: str) -> PackageData:
    """The module for a package.

    Raises:
        UserError: there is none; names the closest.
    """
    return cast(PackageData, plugins.load(__name__, "package", name))


def module_of(name: str) -> str:
    """Dotted name of the module for a package; errors as above."""
    return plugins.module_of(__name__, "package", name)


def installed(name: str, version: str) -> Distribution:
    """The installed package, in whatever version, without importing it.

    Raises:
        UserError: it is not installed; the hint installs `version`.
    """
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise UserError(
            f"the package {name} is not installed", hint=f"pip install {name}=={version}"
        ) from error

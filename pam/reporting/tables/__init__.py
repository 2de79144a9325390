"""Build the tables of `pam.reporting.catalogue.TABLES`."""

from __future__ import annotations

from collections.abc import Callable

from pam.reporting.catalogue import BUILDERS, TABLES
from pam.reporting.comparison import Inputs
from pam.reporting.items import TableSpec, gains_of
from pam.reporting.render import Table
from pam.runtime.errors import unknown
from pam.tasks import imported


def build(name: str, inputs: Inputs) -> Table:
    """Build the table called `name`; `<name>_gains` is the gains of any comparison.

    Raises:
        UserError: there is no such table.
    """
    spec = TABLES.get(name)
    if spec is None:
        compared = TABLES.get(name.removesuffix("_gains"))
        if compared is None or compared.builder != "comparison":
            raise unknown("table", name, list(TABLES))
        spec = gains_of(compared)

    builder: Callable[[TableSpec, Inputs], Table] = imported(BUILDERS[spec.builder])
    return builder(spec, inputs)

"""The list of all checks, at the head of `pam.check`."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from pam import check

LISTED = re.findall(r"^ {6}(\w+) +(pam[\w.]+)", check.__doc__ or "", flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "module"), LISTED)
def test_a_check_of_the_list_is_where_it_says(name: str, module: str) -> None:
    assert callable(getattr(import_module(module), name))


def test_checks_of_experiments_and_of_what_they_name_are_on_the_list() -> None:
    assert len(LISTED) >= 15

    names = {name for name, _ in LISTED}
    for module in ("pam.check", "pam.experiment"):
        public = {name for name in vars(import_module(module)) if name.startswith("check_")}
        inner = {"check_experiment", "check_dataset", "check_splits", "check_penalties"}
        inner |= {"check_alignments", "check_source_vectors", "check_no_actions", "check_known"}
        inner |= {"check_no_features", "check_local", "check_parts", "check_sizes", "check_vectors"}
        assert public - inner <= names

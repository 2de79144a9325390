"""The list of all checks, at the head of `pam.experiments.check`."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from pam.experiments import check

LISTED = re.findall(r"^ {6}(\w+) +(pam[\w.]+)", check.__doc__ or "", flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "module"), LISTED)
def test_a_check_of_the_list_is_where_it_says(name: str, module: str) -> None:
    assert callable(getattr(import_module(module), name))

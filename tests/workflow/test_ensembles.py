"""Models that are joined from others: what cannot be joined.

What a run makes of an ensemble is tested in test_special_models.py.
"""

from __future__ import annotations

import pytest

from tests.workflow.checkouts import Checkout
from tests.workflow.conftest import refusal


@pytest.mark.parametrize(
    ("name", "members", "message"),
    [
        ("three", "[soft, both]", "`both` cannot be in one ensemble"),
        ("both", "[soft, hard-mono]", "`hard-mono` cannot be in one ensemble"),
        ("both", "[soft, sofd]", "unknown model `sofd`"),
    ],
)
def test_members_that_do_not_fit_end_the_run_before_it_starts(
    own: Checkout, name: str, members: str, message: str
) -> None:
    own.write("config/models/both.yaml", "label: Both\nmembers: [soft, mono-postr-joint]\n")
    own.write(f"config/models/{name}.yaml", f"label: Wrong\nmembers: {members}\n")
    own.edit("own/experiment.yaml", "mono-postr-joint]", f"mono-postr-joint, {name}]")

    error = refusal()

    assert message in error
    assert f"config/models/{name}.yaml:2" in error

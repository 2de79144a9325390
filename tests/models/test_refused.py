"""Models that cannot be made are refused where their file is read, with the option's name."""

from __future__ import annotations

from typing import Any

import pytest

from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import parse
from pam.experiments.settings import Network
from pam.models.fitting import check_fit
from pam.runtime.errors import UserError

NETWORK = Network(embedding=12, encoder=3, decoder=5)
BOUND = "a bound and an inference network need each other"


def refused(name: str, changed: dict[str, Any]) -> UserError:
    with pytest.raises(UserError) as caught:
        check_fit(parse(ModelConfig, load_model(name).model_dump() | changed), NETWORK)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("component", "option", "value"),
    [
        ("inference", "bilstm", {"units": 0}),
        ("inference", "bilstm", {"layers": "2"}),
        ("inference", "bilstm", {"layers": 200}),
        ("inference", "bilstm", {"scale": 0.5}),
        ("marginalization", "bound", {"q_top_k": 0}),
        ("marginalization", "bound", {"weight": -1}),
        ("score", "mlp", {"units": -1}),
        ("score", "mlp", {"units": True}),
        ("score", "mlp", {"units": 2**40}),
        ("score", "general", {"scale": 1}),
        ("coupling", "proximity", {"width": "3"}),
        ("input_feeding", "posterior", {"gradient": "no"}),
        *(
            ("distribution", "fusedmax", {"weight": weight})
            for weight in (-0.1, float("nan"), float("inf"), "0.1")
        ),
    ],
)
def test_options_out_of_range_are_refused(
    component: str, option: str, value: dict[str, Any]
) -> None:
    error = refused("variational", {component: {"kind": option} | value})
    ((name, wrong),) = value.items()
    assert error.message.startswith(f"`{component}.{name}`: input should be ")
    assert error.message.endswith(f", not {wrong!r}")


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("variational", {"marginalization": "output"}, BOUND),
        ("variational", {"inference": "none"}, BOUND),
        ("soft", {"estimator": "gumbel"}, "only a bound has an expectation to estimate"),
        ("soft", {"score": "dot"}, "5 units with an encoder state of 6"),
        ("soft", {"input_feeding": "posterior"}, "the posterior needs p(y | s, h_a)"),
        ("transformer", {"coupling": "monotone"}, "`transformer` has no `coupling`"),
        ("transformer", {}, "12 units do not divide into 4 heads"),
        (
            "transformer",
            {"architecture": {"kind": "transformer", "head": 2}},
            "unknown option of architecture `transformer` `head`",
        ),
        (
            "soft",
            {"architecture": {"kind": "agreement", "of": "posterior"}},
            "the posterior needs p(y | s, h_a)",
        ),
        (
            "postr-joint",
            {"architecture": {"kind": "recurrent", "label_smoothing": 0.1}},
            "label smoothing needs a symbol that comes from one context",
        ),
        (
            "soft-pointer",
            {"architecture": {"kind": "recurrent", "label_smoothing": 0.1}},
            "label smoothing is of symbols that are generated",
        ),
        ("soft", {"seeds_each": 3}, "only an ensemble has members of several seeds"),
        ("agreement", {"targets": "actions"}, "the architecture `agreement` writes no actions"),
        ("hard-mono", {"input_feeding": "prior"}, "a pointer is both coupling and input feeding"),
        ("hard-mono", {"marginalization": "output"}, "which leaves none to sum over"),
    ],
)
def test_parts_that_make_no_model_are_refused(
    name: str, changed: dict[str, Any], message: str
) -> None:
    assert message in refused(name, changed).message

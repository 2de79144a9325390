"""Options of components agree with the classes that compute them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.experiments.settings import Network
from pam.models import options
from pam.models.build import build, implementation, recurrent
from pam.models.copying import Copying
from pam.models.interfaces import (
    AttentionHistory,
    Coupling,
    Distribution,
    Estimator,
    Inference,
    InputFeeding,
    Latent,
    Score,
    Sizes,
    Window,
)
from pam.models.logspace import ZERO
from pam.models.marginalization import Marginalization
from pam.models.model import Model
from pam.models.options import COMPONENTS, PARTS, Options, register
from pam.models.seq2seq import Seq2Seq
from pam.runtime.errors import UserError

BASES = {
    "score": Score,
    "window": Window,
    "distribution": Distribution,
    "coupling": Coupling,
    "latent": Latent,
    "marginalization": Marginalization,
    "input_feeding": InputFeeding,
    "inference": Inference,
    "estimator": Estimator,
    "copying": Copying,
}
SIZES = Sizes(query=4, values=6, embedding=5, direction=3, layers=1, rate=0.0, source=9, target=9)
KINDS = [(component, kind) for component, kinds in COMPONENTS.items() for kind in kinds]
DEFAULTS = {name: value for name, value in vars(Options).items() if isinstance(value, bool)}
FLAGS = list(DEFAULTS)
LONG = 60  # source positions, more than the windows show


def implementation_of(component: str, kind: str) -> Any:
    """Import the class that computes a kind, or the function that builds an architecture."""
    return implementation(COMPONENTS[component][kind]())


@pytest.mark.parametrize(("component", "kind"), KINDS)
def test_every_kind_names_what_computes_it(component: str, kind: str) -> None:
    made = implementation_of(component, kind)
    base = BASES.get(component)
    if base is None:
        assert callable(made)
    else:
        assert issubclass(made, base)


def test_every_component_is_a_key_of_a_model() -> None:
    assert [key for key in ModelConfig.model_fields if key in COMPONENTS] == list(COMPONENTS)
    assert BASES.keys() == set(PARTS) == COMPONENTS.keys() - {"architecture"}


@pytest.mark.parametrize(("component", "kind"), KINDS)
def test_options_and_the_class_that_computes_them_say_the_same_of_a_kind(
    component: str, kind: str
) -> None:
    chosen = COMPONENTS[component][kind]()
    made = implementation(chosen)
    computed = {
        flag: getattr(made, flag) for flag in FLAGS if isinstance(getattr(made, flag, None), bool)
    }
    if component in ("window", "distribution"):
        computed["has_zeros"] = leaves_positions_out(component, made(chosen, SIZES))
    if component == "architecture":
        model = build(ModelConfig(label="Mine", architecture=chosen), Network(), 9, 9)
        computed["has_components"] = all(hasattr(model, part) for part in PARTS)
        computed["has_opposite"] = hasattr(model, "back")
        computed["reads_vectors"] = "vectors" in signature(made).parameters

    # A flag that says nothing of a component has its default.
    assert {flag: getattr(chosen, flag) for flag in FLAGS} == DEFAULTS | computed


def leaves_positions_out(component: str, made: Any) -> bool:
    """Return whether some positions get no probability, for scores that are far apart."""
    scores = torch.linspace(-5, 5, LONG)[None]
    mask = torch.ones(1, LONG, dtype=torch.bool)
    if component == "window":
        _, visible = made(scores, torch.ones(1, SIZES.query), mask, AttentionHistory())
        return not bool(visible.all())
    return bool((made(scores, mask) <= ZERO).any())


@pytest.mark.parametrize(("component", "kind"), KINDS)
def test_a_kind_is_named_as_yaml_names_it_and_read_from_there(component: str, kind: str) -> None:
    made = COMPONENTS[component][kind]()
    assert made.kind == kind and made.__doc__
    assert all(
        field.description for name, field in type(made).model_fields.items() if name != "kind"
    )

    by_name = ModelConfig.model_validate({"label": "Mine", component: kind})
    by_options = ModelConfig.model_validate({"label": "Mine", component: made.model_dump()})
    assert getattr(by_name, component) == getattr(by_options, component) == made
    assert ModelConfig.model_validate(by_name.model_dump()) == by_name


def test_options_are_held_as_objects_and_written_as_yaml() -> None:
    model = parse(ModelConfig, {"label": "Mine", "score": {"kind": "general", "scale": True}})
    assert model.score == options.General(scale=True)
    assert model.model_dump()["score"] == {"kind": "general", "scale": True, "learned_scale": False}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"top_k": 0}, {"top_k": "6"}, {"top_k": 1.5}, {"top_k": True}, {"top_k": 10**6}),
        *({"mass": 0.0}, {"mass": 1.5}, {"mass": "all"}),
        *({"topk": 6}, {6: 6}, {"kind": None}, {"kind": ["output"]}),
    ],
)
def test_wrong_options_are_refused(wrong: dict[object, object]) -> None:
    with pytest.raises(ValidationError):
        ModelConfig.model_validate({"label": "Mine", "marginalization": {"kind": "output"} | wrong})
    with pytest.raises(UserError) as caught:
        parse(ModelConfig, {"label": "Mine", "marginalization": {"kind": "output"} | wrong})
    assert caught.value.hint


def test_options_of_another_component_are_refused() -> None:
    with pytest.raises(ValidationError, match="a score without `kind`"):
        ModelConfig(label="Mine", score=options.Monotone())


class Known(Options):
    kind: str = "general"
    implementation = "pam.models.options:Options"


class Nameless(Options):
    implementation = "pam.models.options:Options"


class Nowhere(Options):
    kind: str = "nowhere"
    implementation = "pam.models.nowhere:Nowhere"


class Undone(Options):
    kind: str = "undone"


@pytest.mark.parametrize(
    ("component", "made", "message"),
    [
        ("scores", Known, "unknown component `scores`"),
        ("score", Known, "there is a score `general` already"),
        ("score", Nameless, "Nameless of .* is not a kind of score"),
        ("score", Nowhere, "Nowhere of .* is not a kind of score"),
        ("score", Undone, "Undone of .* is not a kind of score"),
    ],
)
def test_what_is_no_kind_cannot_be_registered(
    component: str, made: type[Options], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        register(component, made)


class Tiny(Options):
    kind: str = "tiny"
    implementation = "tests.models.test_options:tiny"


def tiny(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """Build the architecture of a plugin: the usual one, with fewer units."""
    return recurrent(components, network.model_copy(update={"decoder": 2}), source, target)


def test_an_architecture_of_ones_own_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPONENTS, "architecture", dict(COMPONENTS["architecture"]))
    register("architecture", Tiny)
    model = build(ModelConfig(label="Mine", architecture="tiny"), Network(), 9, 9)
    assert isinstance(model, Seq2Seq) and model.decoder.hidden == 2

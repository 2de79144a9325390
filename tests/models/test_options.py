"""The options of components and the classes that compute them, held together."""

from __future__ import annotations

from importlib import import_module

import pytest
from pydantic import ValidationError

from pam.config import ModelConfig, Network
from pam.io import UserError, parse
from pam.models import options
from pam.models.build import build, recurrent
from pam.models.model import Model
from pam.models.options import COMPONENTS, MODULES, Options, implementation_of, register
from pam.models.seq2seq import Seq2Seq

DICTIONARIES = {
    name: kinds
    for name, kinds in vars(options).items()
    if name.isupper() and any(kinds is known for known in COMPONENTS.values())
}
MODULE_OF = {id(kinds): MODULES[component] for component, kinds in COMPONENTS.items()}
KINDS = [(component, kind) for component, kinds in COMPONENTS.items() for kind in kinds]


@pytest.mark.parametrize("name", DICTIONARIES)
def test_every_kind_has_options_and_a_class_of_the_same_name(name: str) -> None:
    computed = getattr(import_module(MODULE_OF[id(DICTIONARIES[name])]), name)
    (component,) = (key for key, kinds in COMPONENTS.items() if kinds is DICTIONARIES[name])
    assert {kind: f"{made.__module__}:{made.__name__}" for kind, made in computed.items()} == {
        kind: implementation_of(component, made()) for kind, made in DICTIONARIES[name].items()
    }


def test_every_component_is_a_key_of_a_model_with_a_dictionary_and_a_module() -> None:
    assert len(DICTIONARIES) == len(COMPONENTS)
    assert list(COMPONENTS) == list(MODULES)
    assert [key for key in ModelConfig.model_fields if key in COMPONENTS] == list(COMPONENTS)


@pytest.mark.parametrize(("component", "kind"), KINDS)
def test_a_kind_is_named_as_yaml_names_it_and_read_from_there(component: str, kind: str) -> None:
    made = COMPONENTS[component][kind]()
    assert made.kind == kind and made.__doc__
    assert all(field.description for name, field in type(made).model_fields.items() if name != "kind")
    by_name = ModelConfig.model_validate({"label": "Mine", component: kind})
    by_options = ModelConfig.model_validate({"label": "Mine", component: made.model_dump()})
    assert getattr(by_name, component) == getattr(by_options, component) == made
    assert ModelConfig.model_validate(by_name.model_dump()) == by_name


def test_options_are_held_as_objects_and_written_as_yaml() -> None:
    model = parse(ModelConfig, {"label": "Mine", "score": {"kind": "general", "scale": True}})
    assert model.score == options.General(scale=True)
    assert model.model_dump()["score"] == {"kind": "general", "scale": True}


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
        ("score", Nameless, "Nameless of .* is no kind of score"),
        ("score", Nowhere, "Nowhere of .* is no kind of score"),
        ("score", Undone, "Undone of .* is no kind of score"),
    ],
)
def test_what_is_no_kind_cannot_be_registered(component: str, made: type[Options], message: str) -> None:
    with pytest.raises(UserError, match=message):
        register(component, made)


def test_implementations_are_named_by_module_and_class() -> None:
    assert implementation_of("score", options.General()) == "pam.models.scores:General"
    assert implementation_of("coupling", options.PointerCoupling()) == ("pam.models.couplings:PointerCoupling")
    transformer = options.TransformerOptions()
    assert implementation_of("architecture", transformer) == "pam.models.build:transformer"


class Tiny(Options):
    kind: str = "tiny"
    implementation = "tests.models.test_options:tiny"


def tiny(components: ModelConfig, network: Network, source: int, target: int) -> Model:
    """An architecture of one's own: the usual one, with fewer units."""
    return recurrent(components, network.model_copy(update={"decoder": 2}), source, target)


def test_an_architecture_of_ones_own_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "ARCHITECTURES", dict(options.ARCHITECTURES))
    monkeypatch.setitem(COMPONENTS, "architecture", options.ARCHITECTURES)
    register("architecture", Tiny)
    model = build(ModelConfig(label="Mine", architecture="tiny"), Network(), 9, 9)
    assert isinstance(model, Seq2Seq) and model.decoder.hidden == 2

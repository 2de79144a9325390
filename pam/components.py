"""Components as a configuration writes them: `general`, or `{kind: general, scale: true}`.

`pam.models.options` has the kinds and their options; here are the types of the keys that hold them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from pam.io import UserError, refused, unknown
from pam.models.options import COMPONENTS, Options


def read_options(component: str, kind: str, values: dict[str, Any]) -> Options:
    """The options of one kind, from a name and values that YAML wrote.

    Raises:
        PydanticCustomError: no such kind or option; `pam.io.parse` makes a UserError of it.
        ValidationError: a value of a wrong type.
    """
    kinds = COMPONENTS[component]
    if kind not in kinds:
        raise refused(unknown(component, kind, sorted(kinds)), "kind")
    known = [name for name in kinds[kind].model_fields if name != "kind"]
    for name in values:
        if name not in known:
            raise refused(unknown(f"option of {component} `{kind}`", str(name), known), str(name))
    return kinds[kind].model_validate({"kind": kind, **values})


class Component:
    """Marks a field that holds a component's options, written `general` or `{kind: general, ...}`.

    Kinds are looked up when a value is read, so that registered ones are known.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, value: Any) -> Options:
        """A value of YAML as options; options themselves are left as they are."""
        if isinstance(value, Options) and type(value) in COMPONENTS[self.name].values():
            return value
        if isinstance(value, str):
            return read_options(self.name, value, {})
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            hint = f"write `{self.name}: name`, or `{self.name}: {{kind: name, option: value}}`"
            raise refused(UserError(f"a {self.name} without `kind`", hint=hint), "kind")
        others = {name: own for name, own in value.items() if name != "kind"}
        return read_options(self.name, value["kind"], others)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(Options.model_dump)
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        own = {kind: cls for kind, cls in COMPONENTS[self.name].items() if not cls.implementation}
        kinds = [{**cls.model_json_schema(), "required": ["kind"]} for cls in own.values()]
        return {"anyOf": [{"enum": list(own)}, *kinds]}


Architecture = Annotated[Options, Component("architecture")]
Score = Annotated[Options, Component("score")]
Window = Annotated[Options, Component("window")]
Distribution = Annotated[Options, Component("distribution")]
Coupling = Annotated[Options, Component("coupling")]
Latent = Annotated[Options, Component("latent")]
Marginalization = Annotated[Options, Component("marginalization")]
InputFeeding = Annotated[Options, Component("input_feeding")]
Inference = Annotated[Options, Component("inference")]
Estimator = Annotated[Options, Component("estimator")]


def _checked(layer: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """A layer of options as it is, once every component, kind, option and value is known."""
    for component, kinds in layer.items():
        if component not in COMPONENTS:
            raise refused(unknown("component", component, list(COMPONENTS)), component)
        for kind, values in kinds.items():
            with _within(component, kind):
                read_options(component, kind, values)
    return layer


@contextmanager
def _within(*place: str) -> Iterator[None]:
    """Errors below `place`. An option that a layer leaves out is no error: the model has it."""
    try:
        yield
    except PydanticCustomError as error:
        details = [InitErrorDetails(type=error, loc=place, input=None)]
        raise ValidationError.from_exception_data("options", details) from error
    except ValidationError as error:
        details = [
            InitErrorDetails(
                type=PydanticCustomError(problem["type"], "{said}", {"said": problem["msg"]}),
                loc=(*place, *problem["loc"]),
                input=problem["input"],
            )
            for problem in error.errors()
            if problem["type"] != "missing"
        ]
        if details:
            raise ValidationError.from_exception_data("options", details) from error


OptionLayer = Annotated[dict[str, dict[str, dict[str, Any]]], AfterValidator(_checked)]
"""Options by component and kind, as in `marginalization: {output: {top_k: 6}}`."""


def _imported(modules: list[str]) -> list[str]:
    """Imports modules, which register their kinds of components."""
    for module in modules:
        try:
            importlib.import_module(module)
        except UserError as error:
            raise refused(error, module) from error
        except ModuleNotFoundError as error:
            hint = f"install the package of `{error.name}`, or put its folder on PYTHONPATH"
            raise refused(UserError(f"no module `{error.name}`", hint=hint), module) from error
        except Exception as error:  # whatever a module of somebody's own does
            said = f"`{module}` cannot be imported: {type(error).__name__}: {error}"
            raise refused(UserError(said, hint=f"`python -c 'import {module}'` shows where"), module) from error
    return modules


ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)]
Plugins = Annotated[list[ModuleName], AfterValidator(_imported)]
"""Modules that are imported as they are read: what is read after them may use their kinds."""

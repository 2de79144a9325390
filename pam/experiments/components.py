"""Components of a model as YAML writes them: a kind, with options.

A component is written `general`, or `{kind: general, scale: true}`; its kinds and their options are
those of `pam.models.options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from pam.experiments.parsing import refused
from pam.models import options
from pam.models.options import COMPONENTS, Options
from pam.runtime.errors import UserError, unknown

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


def read_options(component: str, kind: str, values: dict[str, Any]) -> Options:
    """Return the options of one kind, from a name and values that YAML wrote.

    No such kind or option is a PydanticCustomError, a value of a wrong type a ValidationError:
    `pam.experiments.parsing.parse` makes UserErrors of them.
    """
    kinds = COMPONENTS[component]
    if kind not in kinds:
        raise refused(unknown(component, kind, sorted(kinds)), "kind")

    names = [name for name in kinds[kind].model_fields if name != "kind"]
    for name in values:
        if name not in names:
            raise refused(unknown(f"option of {component} `{kind}`", str(name), names), str(name))

    return kinds[kind].model_validate({"kind": kind, **values})


@dataclass(frozen=True)
class Kind:
    """Marks a field that holds the options of one of a component's kinds.

    The kinds are looked up when the field is read, as plugins may have added some.
    """

    name: str

    def read(self, value: Any) -> Options:
        """Return a value of YAML as options; options themselves are left as they are."""
        if isinstance(value, Options) and type(value) in COMPONENTS[self.name].values():
            return value
        if isinstance(value, str):
            return read_options(self.name, value, {})
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            hint = f"write `{self.name}: name`, or `{self.name}: {{kind: name, option: value}}`"
            raise refused(UserError(f"a {self.name} without `kind`", hint=hint), "kind")

        values = {name: option for name, option in value.items() if name != "kind"}
        return read_options(self.name, value["kind"], values)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        serialization = core_schema.plain_serializer_function_ser_schema(Options.model_dump)
        return core_schema.no_info_plain_validator_function(self.read, serialization=serialization)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        shipped = {
            kind: cls for kind, cls in COMPONENTS[self.name].items() if options.is_shipped(cls)
        }
        kinds = [{**cls.model_json_schema(), "required": ["kind"]} for cls in shipped.values()]
        return {"anyOf": [{"enum": list(shipped)}, *kinds]}


def _check_layer(
    layer: dict[str, dict[str, dict[str, Any]]],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Check every component, kind, option and value of a layer of options, and return it."""
    for component, kinds in layer.items():
        if component not in COMPONENTS:
            raise refused(unknown("component", component, list(COMPONENTS)), component)
        for kind, values in kinds.items():
            _check_options(component, kind, values)

    return layer


def _check_options(component: str, kind: str, values: dict[str, Any]) -> None:
    """Check the options of one kind in a layer; errors are placed below component and kind."""
    try:
        read_options(component, kind, values)
    except PydanticCustomError as error:
        details = [InitErrorDetails(type=error, loc=(component, kind), input=None)]
        raise ValidationError.from_exception_data("options", details) from error
    except ValidationError as error:
        details = []
        for problem in error.errors():
            # The model has what a layer leaves out.
            if problem["type"] == "missing":
                continue
            # As `parse` words it.
            if problem["type"] == "refused":
                worded = PydanticCustomError("refused", "{message}", problem["ctx"])
            else:
                message = {"said": problem["msg"]}
                worded = PydanticCustomError(problem["type"], "{said}", message)

            keys = (component, kind, *problem["loc"])
            details.append(InitErrorDetails(type=worded, loc=keys, input=problem["input"]))

        if details:
            raise ValidationError.from_exception_data("options", details) from error


OptionLayer = Annotated[dict[str, dict[str, dict[str, Any]]], AfterValidator(_check_layer)]
"""Options by component and kind, as in `marginalization: {output: {top_k: 6}}`."""

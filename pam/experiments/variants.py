"""Items of an experiment's `models`: the name of a file, or a variant with its changes.

models:
  - soft
  - mine: {from: postr-joint, score: dot}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from pam.experiments.keys import NAME, Name
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import refused
from pam.experiments.settings import OVERRIDES, SECTIONS
from pam.experiments.sweep import SWEEP, check_sweep
from pam.models.options import COMPONENTS, Options
from pam.runtime.errors import UserError, unknown

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

_NAME: TypeAdapter[str] = TypeAdapter(Name)
VARIANT = (
    "write `- NAME` for a file of config/models/, or a variant as `- {NAME: {from: MODEL, score:"
    " dot}}`"
)
Listed = str | dict[str, dict[str, Any]]
"""An item of an experiment's `models`: the name of a file, or of a variant with its changes."""


@dataclass(frozen=True)
class ListedModel:
    """Marks an item of an experiment's `models`: the name of a file, or a variant.

    Variants are read when their bases are known.
    """

    def read(self, value: Any) -> Listed:
        """Return a name, or one name with the keys of a model.

        Whether the keys have right values, `with_changes` sees.
        """
        if not isinstance(value, dict):
            return _NAME.validate_python(value)
        if len(value) != 1 or not all(isinstance(changes, dict) for changes in value.values()):
            error = UserError("a variant needs one name, with its changes below it", hint=VARIANT)
            raise refused(error)

        ((name, changes),) = value.items()
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            error = UserError(f"`{name}` cannot be the name of a model", hint=VARIANT)
            raise refused(error, str(name))

        keys = ["from", SWEEP, *ModelConfig.model_fields]
        for key in changes:
            if key not in keys:
                raise refused(unknown("key of a model", str(key), keys), name, str(key))

        if not isinstance(changes.get("from"), str | None):
            raise refused(
                UserError("`from` is not the name of a model", hint=VARIANT), name, "from"
            )

        if SWEEP in changes:
            check_sweep(
                item=name,
                swept=changes[SWEEP],
                options=swept_options(),
                whole=list(COMPONENTS),
                name=NAME,
            )

        return {name: changes}

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        variant = {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": NAME},
        }
        return {
            "anyOf": [
                {"type": "string", "pattern": NAME},
                {**variant, "additionalProperties": {"type": "object"}},
            ]
        }


def swept_options() -> dict[str, list[str]]:
    """Return what a sweep may vary: by section the options of any kind, or the keys."""
    by_section = {}
    for component, kinds in COMPONENTS.items():
        names = dict.fromkeys(name for kind in kinds.values() for name in kind.model_fields)
        by_section[component] = [name for name in names if name != "kind"]
    for section, keys in SECTIONS.items():
        by_section[section] = list(keys.model_fields)

    return by_section


def with_changes(base: ModelConfig | None, name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Return what the file of a variant would hold: what its base says, with its changes.

    Of a component that is written without its `kind`, and of overrides, the base keeps what the
    variant does not say. The label is the variant's name unless it has its own, since no two models
    have the same.
    """
    values: dict[str, Any] = {}
    if base:
        values = {key: getattr(base, key) for key in base.model_fields_set}
    values["label"] = name

    for key, value in changes.items():
        if base and key in COMPONENTS and isinstance(value, dict) and "kind" not in value:
            options_of_base: Options = getattr(base, key)
            values[key] = {
                "kind": options_of_base.kind,
                **options_of_base.model_dump(include=options_of_base.model_fields_set),
                **value,
            }
        elif base and key in OVERRIDES and isinstance(value, dict):
            values[key] = {**getattr(base, key), **value}
        elif key != "from":
            values[key] = value

    return values

"""Values of options that change as the training goes on, without importing torch.

A number is constant. The weight of a divergence that is held low and then rises, and a penalty that
comes late:

    weight: {kind: linear, first: 0.1, last: 1, begin: 0.5, end: 1}
    global_fertility: {kind: delayed, value: 0.1, after: 0.5}
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from pam.io import Strict, UserError, refused, unknown


class Schedule(Strict):
    """A value for each step of a training."""

    is_gradual: ClassVar[bool] = False  # whether it may change at each step, not at one of them

    unit: Literal["share", "steps"] = Field(
        "share", description="of the times: shares of the training, or steps"
    )

    def at(self, step: int, steps: int) -> float:
        """The value at a step, from 0, of so many."""
        return self.value_at(step if self.unit == "steps" else step / steps)

    @abstractmethod
    def value_at(self, time: float) -> float:
        """The value at a time in the schedule's unit."""

    @property
    @abstractmethod
    def values(self) -> tuple[float, ...]:
        """Those between which it changes, the last one at the end."""

    def check_times(self, *times: float) -> None:
        """Refuses times that a training of any length cannot reach."""
        if self.unit == "share" and max(times) > 1:
            raise refused(
                UserError("a share above 1", hint="write a share, or `unit: steps`"), "unit"
            )


class Linear(Schedule):
    """`first` until `begin`, then in a line to `last` at `end`."""

    is_gradual = True

    kind: Literal["linear"] = "linear"
    first: float = Field(description="value at the start")
    last: float = Field(description="value at the end")
    begin: float = Field(0.0, ge=0, description="when it starts to change")
    end: float = Field(1.0, ge=0, description="when it is at its last value")

    @model_validator(mode="after")
    def _is_forward(self) -> Self:
        self.check_times(self.begin, self.end)
        if self.end <= self.begin:
            raise refused(
                UserError("`end` is not after `begin`", hint="let `end` be the greater"), "end"
            )
        return self

    def value_at(self, time: float) -> float:
        done = min(1.0, max(0.0, (time - self.begin) / (self.end - self.begin)))
        return self.first + done * (self.last - self.first)

    @property
    def values(self) -> tuple[float, ...]:
        return self.first, self.last


class Delayed(Schedule):
    """`before` until `after`, then `value`."""

    kind: Literal["delayed"] = "delayed"
    value: float = Field(description="what it is in the end")
    before: float = Field(0.0, description="what it is at the start")
    after: float = Field(ge=0, description="when it changes")

    @model_validator(mode="after")
    def _is_reached(self) -> Self:
        self.check_times(self.after)
        return self

    def value_at(self, time: float) -> float:
        return self.value if time >= self.after else self.before

    @property
    def values(self) -> tuple[float, ...]:
        return self.before, self.value


SCHEDULES: dict[str, type[Schedule]] = {"linear": Linear, "delayed": Delayed}


@dataclass(frozen=True)
class Scheduled:
    """Marks an option that is a number from `least` to `most`, or a schedule of such numbers."""

    least: float
    most: float

    def read(self, value: Any) -> float | Schedule:
        """A value of YAML; a PydanticCustomError says what is wrong with it."""
        if isinstance(value, dict):
            kind = value.get("kind", "constant")
            if not isinstance(kind, str) or kind not in SCHEDULES:
                raise refused(unknown("schedule", str(kind), list(SCHEDULES)), "kind")
            value = SCHEDULES[kind].model_validate(value)
        numbers = value.values if isinstance(value, Schedule) else (value,)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise PydanticCustomError(
                    "number", "input should be a number, or a schedule of numbers"
                )
            if not self.least <= number <= self.most:
                bounds = {"least": f"{self.least:g}", "most": f"{self.most:g}"}
                raise PydanticCustomError(
                    "bounds", "input should be from {least} to {most}", bounds
                )
        return value if isinstance(value, Schedule) else float(value)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_written)
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        number = {"type": "number", "minimum": self.least, "maximum": self.most}
        kinds = [cls.model_json_schema() for cls in SCHEDULES.values()]
        return {
            "anyOf": [
                number,
                *({**kind, "required": [*kind.get("required", []), "kind"]} for kind in kinds),
            ]
        }


def _written(value: float | Schedule) -> Any:
    return value.model_dump() if isinstance(value, Schedule) else value


def final(value: float | Schedule) -> float:
    """What an option is once the training is done."""
    return value.values[-1] if isinstance(value, Schedule) else value

"""Schedules: values of options that change during training; imports no torch.

An option that is a number is constant. Here a weight is held low for half of the training and then
rises, and a penalty starts halfway:

    weight: {kind: linear, first: 0.1, last: 1, begin: 0.5, end: 1}
    global_fertility: {kind: delayed, value: 0.1, after: 0.5}
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from pam.experiments.parsing import Strict, refused
from pam.runtime.errors import UserError, unknown


class Schedule(Strict):
    """A value for each step of a training."""

    is_gradual: ClassVar[bool] = False
    """Whether the value may change at each step, rather than at a single one."""

    unit: Literal["share", "steps"] = Field(
        "share", description="unit of times: shares of the training, or steps"
    )

    def at(self, step: int, steps: int) -> float:
        """Return the value at a step, counted from 0, of a training of `steps` steps."""
        if self.unit == "steps":
            return self.value_at(step)
        return self.value_at(step / steps)

    @abstractmethod
    def value_at(self, time: float) -> float:
        """Return the value at a time in the schedule's unit."""

    @property
    @abstractmethod
    def values(self) -> tuple[float, ...]:
        """The values between which it changes, the last one being the final value."""

    def check_times(self, *times: float) -> None:
        """Refuse times that no training reaches."""
        if self.unit == "share" and max(times) > 1:
            raise refused(
                UserError("a share above 1", hint="write a share, or `unit: steps`"), "unit"
            )


class Linear(Schedule):
    """`first` until `begin`, then linearly to `last` at `end`."""

    is_gradual = True

    kind: Literal["linear"] = "linear"
    first: float = Field(description="value at the start")
    last: float = Field(description="value at the end")
    begin: float = Field(0.0, ge=0, description="time at which it starts to change")
    end: float = Field(1.0, ge=0, description="time at which it reaches its last value")

    @model_validator(mode="after")
    def _is_forward(self) -> Self:
        self.check_times(self.begin, self.end)
        if self.end <= self.begin:
            raise refused(
                UserError("`end` is not after `begin`", hint="let `end` be the greater"), "end"
            )
        return self

    def value_at(self, time: float) -> float:
        progress = min(1.0, max(0.0, (time - self.begin) / (self.end - self.begin)))
        return self.first + progress * (self.last - self.first)

    @property
    def values(self) -> tuple[float, ...]:
        return self.first, self.last


class Delayed(Schedule):
    """`before` until `after`, then `value`."""

    kind: Literal["delayed"] = "delayed"
    value: float = Field(description="value at the end")
    before: float = Field(0.0, description="value at the start")
    after: float = Field(ge=0, description="time at which it changes")

    @model_validator(mode="after")
    def _is_reached(self) -> Self:
        self.check_times(self.after)
        return self

    def value_at(self, time: float) -> float:
        if time >= self.after:
            return self.value
        return self.before

    @property
    def values(self) -> tuple[float, ...]:
        return self.before, self.value


SCHEDULES: dict[str, type[Schedule]] = {"linear": Linear, "delayed": Delayed}
"""Kinds of schedules, by the names in YAML."""


@dataclass(frozen=True)
class Scheduled:
    """Annotation of an option: a number from `least` to `most`, or a schedule of such numbers."""

    least: float
    most: float

    def read(self, value: Any) -> float | Schedule:
        """Read a value of YAML; a PydanticCustomError says what is wrong with it."""
        if isinstance(value, dict):
            kind = value.get("kind", "constant")
            if not isinstance(kind, str) or kind not in SCHEDULES:
                raise refused(unknown("schedule", str(kind), list(SCHEDULES)), "kind")
            value = SCHEDULES[kind].model_validate(value)

        if isinstance(value, Schedule):
            for number in value.values:
                self._check(number)
            return value

        self._check(value)
        return float(value)

    def _check(self, number: Any) -> None:
        """Refuse anything but a number within the bounds."""
        # Python's booleans are integers.
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise PydanticCustomError(
                "number", "input should be a number, or a schedule of numbers"
            )

        if not self.least <= number <= self.most:
            bounds = {"least": f"{self.least:g}", "most": f"{self.most:g}"}
            raise PydanticCustomError("bounds", "input should be from {least} to {most}", bounds)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        serialization = core_schema.plain_serializer_function_ser_schema(_to_yaml)
        return core_schema.no_info_plain_validator_function(self.read, serialization=serialization)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        alternatives: list[dict[str, Any]] = [
            {"type": "number", "minimum": self.least, "maximum": self.most}
        ]
        for schedule in SCHEDULES.values():
            # The field `kind` has a default, but YAML has to name it.
            kind = schedule.model_json_schema()
            alternatives.append({**kind, "required": [*kind.get("required", []), "kind"]})

        return {"anyOf": alternatives}


def _to_yaml(value: float | Schedule) -> Any:
    """Return an option as plain data."""
    if isinstance(value, Schedule):
        return value.model_dump()
    return value


def final(value: float | Schedule) -> float:
    """Return the value of an option at the end of training."""
    if isinstance(value, Schedule):
        return value.values[-1]
    return value

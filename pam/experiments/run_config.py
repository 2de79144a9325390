"""The resolved configuration of one training, `run.yaml` in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from pam.experiments.keys import NAME, Plugins, Seed, Text, key
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import Strict, parse
from pam.experiments.settings import IN_TRAINING, OLD_MAX_RATIO, Decoding, Network, Training
from pam.experiments.yaml import read_yaml

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


class Member(Strict):
    """One of the models whose mean an ensemble is."""

    components: ModelConfig
    network: Network


class RunConfig(Strict):
    """One training, resolved: nothing is left to default or to another file."""

    plugins: Plugins = key([], "as in the experiment")
    experiment: str = Field(pattern=NAME)
    task: str = Field(pattern=NAME)
    model: str = Field(pattern=NAME)
    label: Text
    seed: Seed
    components: ModelConfig
    members: list[Member] = key([], "of an ensemble; then nothing is trained")
    network: Network
    training: Training
    decoding: Decoding

    @property
    def is_chosen_by_decoding(self) -> bool:
        """Whether the training decodes the development split to choose its epoch."""
        return not self.members and self.training.select == "accuracy"

    def training_config(self) -> dict[str, Any]:
        """Return what decides the result of the training, and so is a reason to train again.

        Of `decoding` it has nothing, unless the epoch is chosen by decoding.
        """
        for_people = {"label", "source"}
        config = self.model_dump(
            exclude={
                "plugins": True,
                "experiment": True,
                "label": True,
                "components": for_people,
                "members": {"__all__": {"components": for_people}},
                "training": {"state_every_s"},
                "decoding": True,
            }
        )
        if self.is_chosen_by_decoding:
            config["decoding"] = self.decoding.model_dump(include=IN_TRAINING)
        return config

    def as_written_for(self, plan: RunConfig) -> RunConfig:
        """Return a stored run as it would be written today, to be compared with a planned one.

        Before `max_ratio` followed the pairs of training its default was a number, which runs that
        are stored have. No stored experiment has a pair of training that it cuts.
        """
        if plan.decoding.max_ratio is None and self.decoding.max_ratio == OLD_MAX_RATIO:
            decoding = self.decoding.model_copy(update={"max_ratio": None})
            return self.model_copy(update={"decoding": decoding})
        return self


def load_run(path: Path | str) -> RunConfig:
    """Read the resolved configuration of one training."""
    return parse(RunConfig, read_yaml(path), path)

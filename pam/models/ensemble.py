"""Several models as one: the mean of their distributions, symbol by symbol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pam.models.interfaces import AttentionHistory, Smoothing
from pam.models.logspace import safe_log
from pam.models.model import Encoded, Model, State, Step
from pam.models.outputs import Origin, TokenDistribution


@dataclass(frozen=True)
class Sources:
    """Encoded sources."""

    parts: tuple[Encoded, ...]  # as each member encodes them

    def select(self, sentences: Tensor) -> Sources:
        return Sources(tuple(part.select(sentences) for part in self.parts))


@dataclass(frozen=True)
class States:
    """The state of hypotheses."""

    parts: tuple[State, ...]  # as each member carries it
    history: AttentionHistory  # the means of the members' alignments

    @property
    def alignment(self) -> Tensor | None:
        return self.history.alignment

    def select(self, rows: Tensor) -> States:
        parts = tuple(part.select(rows) for part in self.parts)
        return States(parts, self.history.select(rows))


@dataclass(eq=False)
class MeanDistribution(TokenDistribution):
    """p(y_t) = mean of the members' distributions."""

    parts: tuple[TokenDistribution, ...]

    def log_probs(self) -> Tensor:
        return mean_log([part.log_probs() for part in self.parts])

    def log_prob(self, symbols: Tensor) -> Tensor:
        return mean_log([part.log_prob(symbols) for part in self.parts])

    def exact(self) -> MeanDistribution:
        # A distribution that sums over all positions is its own exact one.
        exact_parts = tuple(part.exact() for part in self.parts)
        is_exact = all(exact is part for exact, part in zip(exact_parts, self.parts, strict=True))
        if is_exact:
            return self
        return MeanDistribution(exact_parts)

    def origin(self, symbols: Tensor) -> Origin | None:
        # The mean has an origin if all members copy.
        origins = []
        for part in self.parts:
            origin = part.origin(symbols)
            if origin is None:
                return None
            origins.append(origin)

        p_gen = torch.stack([origin.p_gen for origin in origins]).mean(0)
        log_copied = mean_log([origin.log_copied for origin in origins])
        return Origin(p_gen, log_copied)

    def select(self, rows: Tensor) -> MeanDistribution:
        return MeanDistribution(tuple(part.select(rows) for part in self.parts))


@dataclass(frozen=True)
class Steps:
    """A step before its symbol is chosen."""

    parts: tuple[Step, ...]  # as each member computes it
    history: AttentionHistory  # before this step

    @property
    def output(self) -> MeanDistribution:
        return MeanDistribution(tuple(part.output for part in self.parts))

    @property
    def log_prior(self) -> Tensor:
        priors = [part.log_prior.exp() for part in self.parts]
        return safe_log(torch.stack(priors).mean(0))

    @property
    def query(self) -> Tensor:
        return torch.cat([part.query for part in self.parts], 1)

    def select(self, rows: Tensor) -> Steps:
        parts = tuple(part.select(rows) for part in self.parts)
        return Steps(parts, self.history.select(rows))


class Ensemble(Model):
    """p(y_t | y_<t, x) = mean over the members (Luong et al. 2015, section 4.1).

    Each member goes on from the chosen symbol with its own state. Alignments are means too.
    """

    def __init__(self, members: Sequence[Model]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def models(self) -> list[Model]:
        """The members, typed as models."""
        return [member for member in self.members if isinstance(member, Model)]

    def encode(self, source: Tensor, lengths: Tensor, beam: int = 1) -> Sources:
        return Sources(tuple(member.encode(source, lengths, beam) for member in self.models))

    def start(self, memory: Sources) -> States:
        parts = tuple(
            member.start(member_memory)
            for member, member_memory in zip(self.models, memory.parts, strict=True)
        )
        return States(parts, AttentionHistory())

    def step(self, memory: Sources, state: States, symbol: Tensor) -> Steps:
        members = zip(self.models, memory.parts, state.parts, strict=True)
        parts = tuple(
            member.step(member_memory, member_state, symbol)
            for member, member_memory, member_state in members
        )
        return Steps(parts, state.history)

    def update(self, memory: Sources, step: Steps, symbol: Tensor) -> States:
        members = zip(self.models, memory.parts, step.parts, strict=True)
        parts = tuple(
            member.update(member_memory, member_step, symbol)
            for member, member_memory, member_step in members
        )

        alignment = torch.stack([part.alignment for part in parts]).mean(0)
        return States(parts, step.history.then(alignment))

    @property
    def smoothing(self) -> Smoothing:
        """What the members do; an approximation where they differ."""
        kinds = {member.smoothing for member in self.models}
        if len(kinds) == 1:
            return kinds.pop()
        return Smoothing.APPROXIMATE

    @torch.no_grad()
    def align(
        self, source: Tensor, lengths: Tensor, target: Tensor, smooth: bool = False
    ) -> Tensor:
        """Compute the mean of the members' alignments (B, T, m)."""
        alignments = [member.align(source, lengths, target, smooth) for member in self.models]
        return torch.stack(alignments).mean(0)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return mean_log([member.log_likelihood(source, lengths, target) for member in self.models])


def mean_log(log_probs: Sequence[Tensor]) -> Tensor:
    """Compute the log of the mean of probabilities from their logs."""
    return torch.logsumexp(torch.stack(tuple(log_probs)), 0) - math.log(len(log_probs))

"""Constrained search against enumeration: prefixes, and words that must or must not be there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch

from pam.data.vocabulary import EOS
from pam.decoding.constraints import Constraint, Constraints
from pam.decoding.hypotheses import Output, forbidden_symbols
from pam.decoding.search import Sampling
from pam.experiments.settings import Decoding
from pam.models.seq2seq import Seq2Seq
from pam.runtime.errors import UserError
from tests.decoding import varied
from tests.decoding.best import assert_same, log_likelihoods, outputs_of
from tests.decoding.varied import SOURCES
from tests.models import tiny

SHORT: dict[str, Any] = {"max_ratio": 1e-9, "max_extra": 4}
"""Outputs of at most three symbols and an end symbol."""

ALLOWED = [s for s in range(tiny.VOCABULARY) if s not in {*forbidden_symbols(False), EOS}]
STRINGS = [list(text) for length in range(4) for text in product(ALLOWED, repeat=length)]
CONSTRAINTS = {
    "prefix": Constraint(prefix=[6]),
    "longer prefix": Constraint(prefix=[6, 8]),
    "exclude": Constraint(exclude=[[5], [6, 7], [8, 8]]),
    "include": Constraint(include=[[7]]),
    "include several": Constraint(include=[[5], [8]]),
    "include in a row": Constraint(include=[[8, 5], [5, 8]]),
    "include what overlaps": Constraint(include=[[5, 5], [5, 5, 7]]),
    "all": Constraint(prefix=[8], include=[[6]], exclude=[[6, 6], [8, 6]]),
    "nothing": Constraint(),
}


def has(text: Sequence[int], word: Sequence[int]) -> bool:
    return " ".join(map(str, word)) in " ".join(map(str, text))


def meets(text: list[int], asked: Constraint) -> bool:
    """Decide by strings whether an output of symbols of one digit is like a constraint."""
    return (
        text[: len(asked.prefix)] == list(asked.prefix)
        and all(has(text, word) for word in asked.include)
        and not any(has(text, word) for word in asked.exclude)
    )


def decode(
    model: Seq2Seq, constraints: list[Constraint], decoding: Decoding, **more: Any
) -> list[list[Output]]:
    sources = SOURCES[: len(constraints)]
    return outputs_of(model, sources, decoding, constraints=constraints, **more)


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return varied.short("postr-joint")


@pytest.fixture(scope="module")
def likelihoods(model: Seq2Seq) -> list[list[float]]:
    """Log p of each of `STRINGS` by source."""
    targets = [[*text, EOS] for text in STRINGS]
    return [log_likelihoods(model, source, targets) for source in SOURCES]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_wide_beam_finds_the_best_output_that_meets_a_constraint(
    name: str, model: Seq2Seq, likelihoods: list[list[float]]
) -> None:
    asked = CONSTRAINTS[name]
    constraints = [asked] * len(SOURCES)
    outputs = decode(model, constraints, Decoding(beam=700, **SHORT), n_best=2)

    for scores, found in zip(likelihoods, outputs, strict=True):
        allowed = [number for number, text in enumerate(STRINGS) if meets(text, asked)]
        best = sorted(allowed, key=scores.__getitem__, reverse=True)[:2]
        for output, number in zip(found, best, strict=False):
            expected = Output(STRINGS[number], scores[number], True, scores[number])
            assert_same(output, expected)
    # The constraint changes what is found, but for the last one.
    free = decode(model, [Constraint()] * len(SOURCES), Decoding(beam=700, **SHORT))
    is_changed = [output[0].symbols for output in outputs] != [out[0].symbols for out in free]
    assert is_changed == (name != "nothing")


@pytest.mark.parametrize("name", ["soft", "soft-pointer", "hard", "mono-postr-joint"])
def test_outputs_of_a_narrow_beam_meet_their_constraints(name: str) -> None:
    model = varied.model(name)
    # Each source has another constraint, in one batch.
    named = [*CONSTRAINTS.values()][: len(SOURCES)]
    decoding = Decoding(beam=6, max_ratio=1.0, max_extra=6)
    together = decode(model, named, decoding, n_best=3)
    for asked, outputs in zip(named, together, strict=True):
        assert all(meets(output.symbols, asked) for output in outputs)

    # What is found for one source does not depend on the batch.
    one_by_one = decode(model, named, decoding.model_copy(update={"batch_size": 1}), n_best=3)
    for outputs, alone in zip(together, one_by_one, strict=True):
        for output, expected in zip(outputs, alone, strict=True):
            assert_same(output, expected)


def test_a_search_without_effective_constraints_is_a_plain_search(model: Seq2Seq) -> None:
    decoding = Decoding(beam=4, max_ratio=1.0, max_extra=4)
    plain = outputs_of(model, SOURCES, decoding, n_best=3)
    assert decode(model, [Constraint()] * len(SOURCES), decoding, n_best=3) == plain


@pytest.mark.parametrize("seed", range(3))
def test_words_are_always_found_by_a_beam_that_is_wide_enough(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    constraints = []
    for _ in SOURCES:
        sizes = torch.randint(1, 4, (2,), generator=generator).tolist()
        words = [torch.randint(5, 9, (size,), generator=generator).tolist() for size in sizes]
        constraints.append(Constraint(include=words))

    model = varied.model("soft")
    # No word is ever likely, and each output is hardly long enough for both.
    model.readout.output.bias.data[EOS] += 5
    decoding = Decoding(beam=7, max_ratio=1e-9, max_extra=7)
    for asked, (output, *_) in zip(constraints, decode(model, constraints, decoding), strict=True):
        assert meets(output.symbols, asked)


def test_words_do_not_begin_inside_of_other_words() -> None:
    # Symbol 7 goes on with the symbol behind it.
    continues = torch.zeros(9, dtype=torch.bool)
    continues[7] = True
    asked = Constraints.of([Constraint(include=[[5, 6]], exclude=[[8]])], continues, "cpu")
    written = torch.tensor([[[5, 6, 5], [7, 5, 6], [5, 7, 5], [6, 6, 7]]])
    assert asked.has_all(written).tolist() == [[True, False, False, False]]
    assert asked.progress(written, 9)[0, :, 6].tolist() == [2, 0, 0, 0]

    log_probs = torch.zeros(1, 4, 9)
    asked.forbid(log_probs, written)
    assert (log_probs[0, :, 8] == -torch.inf).tolist() == [True, True, True, False]
    assert (log_probs[0, :, EOS] == -torch.inf).tolist() == [False, True, True, True]


def test_samples_have_their_prefix_and_no_excluded_word() -> None:
    model = varied.model("postr-joint")
    asked = Constraint(prefix=[8], exclude=[[6], [5, 5]])
    outputs = decode(
        model,
        [asked] * len(SOURCES),
        Decoding(max_ratio=1.0, max_extra=4),
        n_best=20,
        sampling=Sampling(2.0),
    )
    for outputs_of_source in outputs:
        assert all(meets(output.symbols, asked) for output in outputs_of_source)
        assert len({tuple(output.symbols) for output in outputs_of_source}) > 1


@pytest.mark.parametrize(
    ("asked", "decoding", "sampling"),
    [
        (Constraint(include=[[5, 6, 7]]), Decoding(beam=3, max_extra=9), None),
        (Constraint(include=[[5]]), Decoding(beam=3, max_extra=9), Sampling()),
        (Constraint(prefix=[5, 6, 7, 8]), Decoding(beam=3, **SHORT), None),
        (Constraint(include=[[5, 6]], exclude=[[6]]), Decoding(beam=9), None),
        (Constraint(prefix=[5, 6]), Decoding(beam=3, no_repeat_ngram_size=1, min_length=4), None),
        (Constraint(exclude=[[s] for s in ALLOWED]), Decoding(beam=3, min_length=2), None),
    ],
)
def test_what_cannot_be_met_is_refused(
    asked: Constraint, decoding: Decoding, sampling: Sampling | None, model: Seq2Seq
) -> None:
    constraints = [Constraint(), asked]
    if decoding.no_repeat_ngram_size is not None:
        constraints = [Constraint(), Constraint(prefix=[5, 5])]
    with pytest.raises(UserError, match="source 1") as error:
        decode(model, constraints, decoding, sampling=sampling)
    assert error.value.hint

"""Guided alignment: given links as one more term of the objective."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.cli import main
from pam.data.dataset import Examples, Prepared
from pam.experiments.settings import Guided
from pam.models.attention_model import AttentionModel
from pam.models.checkpoint import load_model
from pam.models.guide import Guide
from pam.runtime.errors import UserError
from pam.training.guided import GivenLinks, check_guided, check_links
from tests.models import test_aligned_transformer, tiny
from tests.training import small


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.prepare(tmp_path_factory.mktemp("guided") / "data")


def copied_letters(folder: Path, data: Path, shift: int = 0) -> Path:
    """Write links from letter to letter: a source has two features before its letters."""
    lines = []
    for lemma, _, form in Prepared(data).rows("train"):
        count = min(len(lemma), len(form)) - shift
        lines.append(" ".join(f"{letter + 2 + shift}-{letter}" for letter in range(count)))
    file = folder / "links.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_cost_is_the_cross_entropy_of_words() -> None:
    # Word 0 has two symbols, word 1 one; the last position is part of none.
    guide = Guide(
        words=torch.tensor([[0, 0, 1, 2]]),
        links=torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]]),
        weight=2.0,
    )
    row = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    cost = guide.cost(row.expand(1, 3, 4))

    logs = torch.tensor([0.3, 0.3], dtype=torch.float64).log()
    torch.testing.assert_close(cost, -2 * torch.stack([logs[0], logs.mean(), logs[0] * 0])[None])


def models() -> dict[str, AttentionModel]:
    return {
        "recurrent": tiny.model(tiny.components("prox-postr-joint")),
        "soft": tiny.model(tiny.components("soft")),
        "transformer": test_aligned_transformer.made("prox-postr-joint"),
    }


def a_guide(source: Tensor, target: Tensor, weight: float, of_posterior: bool) -> Guide:
    """Link every other target symbol to a source symbol."""
    rows, length = source.shape
    links = torch.zeros(rows, target.shape[1], length)
    links[:, ::2, 0] = 1.0
    words = torch.arange(length).expand(rows, length)
    return Guide(words, links, weight, of_posterior)


@pytest.mark.parametrize(
    ("name", "of_posterior"),
    [
        ("recurrent", False),
        ("recurrent", True),
        ("soft", False),
        ("transformer", False),
        ("transformer", True),
    ],
)
def test_gradients_are_those_of_finite_differences(name: str, of_posterior: bool) -> None:
    model = models()[name]
    source, lengths, target = tiny.batch(rows=2, source=4, target=3)
    guide = a_guide(source, target, weight=0.7, of_posterior=of_posterior)

    def loss() -> Tensor:
        return -model.objective(source, lengths, target, guide).sum()

    # The term is what is added to the likelihood.
    forced = model.teacher_force(source, lengths, target)
    guided = forced.posterior if of_posterior else forced.prior
    term = loss() + model.objective(source, lengths, target).sum()
    torch.testing.assert_close(term, guide.cost(guided).sum())

    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
    step = 1e-6
    generator = torch.Generator().manual_seed(1)
    learning = [pair for pair in zip(parameters, gradients, strict=True) if pair[1] is not None]
    for parameter, gradient in learning[:: len(learning) // 6]:
        place = int(torch.randint(parameter.numel(), (1,), generator=generator))
        flat = parameter.data.view(-1)
        before = float(flat[place])
        values = []
        for moved in (before + step, before - step):
            flat[place] = moved
            values.append(loss().item())
        flat[place] = before
        numeric = (values[0] - values[1]) / (2 * step)
        assert gradient.reshape(-1)[place].item() == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_rows_without_links_have_no_term() -> None:
    model = models()["recurrent"]
    source, lengths, target = tiny.batch()
    guide = a_guide(source, target, weight=0.7, of_posterior=False)
    unguided = model.objective(source, lengths, target)

    empty = replace(guide, links=torch.zeros_like(guide.links))
    assert torch.equal(model.objective(source, lengths, target, empty), unguided)
    guide.links[1] = 0
    guided = model.objective(source, lengths, target, guide)
    torch.testing.assert_close(guided[1], unguided[1])
    assert (guided[0] != unguided[0]).any()


def test_the_rows_of_a_batch_have_their_own_links(data: Path, tmp_path: Path) -> None:
    prepared = Prepared(data)
    links = GivenLinks.read(Guided(links=str(copied_letters(tmp_path, data))), prepared)
    batch = Examples(prepared.split("train"), "symbols").batch(torch.tensor([7, 0]).numpy())

    guide = links.of_batch(batch)
    for place, row in enumerate(batch.rows.tolist()):
        lemma, _, form = prepared.rows("train")[row]
        count = min(len(lemma), len(form))
        linked = guide.links[place].nonzero().tolist()
        assert linked == [[letter, letter + 2] for letter in range(count)]
        assert guide.words[place, : len(lemma) + 2].tolist() == list(range(len(lemma) + 2))

    # A phase of training reads less of a row.
    short = Examples(prepared.split("train"), "symbols").cut(4, 3).batch(batch.rows)
    cut = links.of_batch(short)
    assert cut.links.shape[:2] == short.target.shape
    assert cut.links.sum() < guide.links.sum()


def test_a_guided_training_attends_to_the_given_links(data: Path, tmp_path: Path) -> None:
    links = copied_letters(tmp_path, data, shift=1)
    probabilities = {}
    for name, guided in (("guided", {"links": str(links), "weight": 2.0}), ("plain", None)):
        out = tmp_path / name
        training: dict[str, Any] = {} if guided is None else {"guided": guided}
        small.write_run(out, small.run("soft", **training))
        arguments = ["train", "--run", out, "--data", data, "--device", "cpu"]
        assert main([str(argument) for argument in arguments]) == 0

        model = load_model(out / "model")
        lemma, features, form = Prepared(data).rows("train")[0]
        batch = model.pairs([model.codec.source_symbols((lemma, features))], [list(form)])
        prior = model.network.teacher_force(*batch).prior[0]
        probabilities[name] = float(prior[torch.arange(2), torch.arange(2) + 3].mean())

    assert probabilities["guided"] > probabilities["plain"] + 0.02
    assert "guided" not in (tmp_path / "plain" / "run.yaml").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "59 lines"),
        (lambda lines: [*lines, ""], "61 lines"),
        (lambda lines: ["0-99", *lines[1:]], ":1: .*no word 99"),
        (lambda lines: [*lines[:4], "0_1", *lines[5:]], ":5: "),
    ],
)
def test_links_that_do_not_fit_are_refused_before_training(
    change: Any, words: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied_letters(tmp_path, data)
    lines = change(file.read_text().splitlines())
    file.write_text("".join(f"{line}\n" for line in lines))
    small.write_run(tmp_path / "run", small.run("soft", guided={"links": str(file)}))

    arguments = ["train", "--run", tmp_path / "run", "--data", data, "--device", "cpu"]
    assert main([str(argument) for argument in arguments]) == 2
    message = capsys.readouterr().err
    assert re.search(words, message) and str(file) in message and "hint: " in message
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize(
    ("model", "of"),
    [("transformer", "prior"), ("hard-mono", "prior"), ("none", "prior"), ("soft", "posterior")],
)
def test_models_that_cannot_be_guided_are_refused(model: str, of: str, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("0-0\n")
    run = small.run(model, guided={"links": str(tmp_path / "links"), "of": of})
    with pytest.raises(UserError, match="guided"):
        check_guided(run)


def test_links_that_are_not_there_are_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        check_links(str(tmp_path / "none"))

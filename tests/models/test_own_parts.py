"""A coupling and a network from outside, by the text of docs/extending.md."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import torch
import yaml

from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.fitting import check_fit
from pam.models.interfaces import Smoothing
from pam.models.options import COMPONENTS
from pam.models.seq2seq import Seq2Seq
from tests.decoding.best import decode
from tests.models import tiny
from tests.workflow.checkouts import ROOT

PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## A component\n")[2].partition("\n## ")[0]


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seq2Seq]:
    """Make the model of the page, in float64."""
    for component in ("coupling", "architecture"):
        monkeypatch.setitem(COMPONENTS, component, dict(COMPONENTS[component]))

    package = tmp_path / "mylab"
    package.mkdir()
    (package / "__init__.py").touch()
    named = re.findall(r"`mylab/(\w+)\.py`.*?```python\n(.*?)```", SECTION, flags=re.DOTALL)
    assert [name for name, _ in named] == ["parts", "coupling", "network"]
    for name, code in named:
        (package / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_package()
    importlib.import_module("mylab.parts")

    (text,) = re.findall(r"```yaml\n(label.*?)```", SECTION, flags=re.DOTALL)
    components = ModelConfig.model_validate(yaml.safe_load(text))
    network = Network(embedding=4, encoder=3, decoder=5)
    check_fit(components, network)

    torch.manual_seed(1)
    model = build(components, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    assert isinstance(model, Seq2Seq)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    yield model
    forget_package()


def forget_package() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mylab"]:
        del sys.modules[name]


def test_its_posterior_given_the_target_is_that_of_all_paths(own_model: Seq2Seq) -> None:
    source, lengths, target = (part[:1] for part in tiny.batch())
    target = target[:, :3]
    steps, positions = target.shape[1], int(lengths[0])
    unrolled = own_model(source, lengths, target)
    likelihoods = own_model.teacher_force(source, lengths, target)
    assert own_model.smoothing is Smoothing.EXACT

    # A chain: the first step's prior, then moves, and at each position the symbol's likelihood.
    head = own_model.head
    memory = unrolled.memory
    queries = unrolled.packed.split(unrolled.output.attention.query)
    emissions = unrolled.output.position_log_prob(unrolled.packed.symbols).exp()
    first = unrolled.output.attention.prior[0]
    history = head.start(memory).history
    moves = []
    for query, alignment in zip(queries, unrolled.alignments, strict=True):
        moves.append(head.transitions(memory, history, query)[0])
        history = history.then(alignment)

    total = torch.zeros((), dtype=torch.float64)
    for path in product(range(positions), repeat=steps):
        weight = first[path[0]] * emissions[0, path[0]]
        for t in range(1, steps):
            weight = weight * moves[t][path[t - 1], path[t]] * emissions[t, path[t]]
        total = total + weight
    torch.testing.assert_close(total.log(), likelihoods.log_probs.sum())


def test_it_searches_and_trains(own_model: Seq2Seq) -> None:
    source, lengths, target = tiny.batch()
    outputs = decode(own_model, [[5], [6, 7], [8, 5, 6]], Decoding(beam=2, max_extra=3), False)
    assert len(outputs) == 3

    own_model.train()
    optimizer = torch.optim.Adam(own_model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -own_model.objective(source, lengths, target).sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]

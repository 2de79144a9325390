"""The library, `pam.load`, and models that are exported: what a person does in a notebook."""

from __future__ import annotations

import copy
import doctest
import errno
import importlib
import json
import multiprocessing
import os
import pickle
import pydoc
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, get_overloads, get_type_hints

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import pam
from pam.evaluation.length_penalty import Choice
from pam.experiments.settings import Decoding
from pam.library import api
from pam.runtime.devices import usable_device
from pam.runtime.errors import UserError
from pam.runtime.files import sha256_of
from tests.cli.conftest import Call

mpl.use("agg")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["Haus\tcase=dative,number=plural", "Tisch\tcase=genitive,number=singular"]


@pytest.fixture(scope="module")
def model(trained: Path) -> pam.TrainedModel:
    return pam.load(trained)


@pytest.fixture(scope="module")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as one file."""
    out = tmp_path_factory.mktemp("exported") / "model.pam"
    pam.load(trained).export(out)

    return out


@pytest.mark.parametrize(
    ("module", "examples"),
    [
        ("pam.library.api", 14),
        ("pam.library.model_files", 1),
        ("pam.models.posterior_attention", 6),
    ],
)
def test_examples_of_the_reference_print_what_they_show(module: str, examples: int) -> None:
    results = doctest.testmod(importlib.import_module(module), verbose=False)
    assert results.failed == 0
    assert results.attempted >= examples


def test_the_package_lists_its_library() -> None:
    assert set(pam.__all__) <= set(dir(pam))
    shown = pydoc.render_doc(pam)
    assert all(
        name in shown for name in ("TrainedModel", "PosteriorAttention", "load", "UserError")
    )
    assert pam.UserError is UserError


def test_importing_the_package_imports_no_torch() -> None:
    program = "import sys, pam; assert 'torch' not in sys.modules; assert pam.__version__"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_predicts_what_the_command_predicts(
    model: pam.TrainedModel, trained: Path, called: Call
) -> None:
    typed = "".join(f"{source}\n" for source in SOURCES)
    result = called("predict", "--model", trained / "model", "--beam", "3", typed=typed)
    assert model.predict(SOURCES, beam=3) == result.out.splitlines()


def test_several_outputs_have_scores_and_fall_in_order(model: pam.TrainedModel) -> None:
    for outputs in model.predict(SOURCES, beam=4, n_best=3):
        scores = [output.score for output in outputs]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_outputs_that_end_come_before_those_cut_short() -> None:
    model = pam.load("pretrained:nouns/postr-joint")
    source = "Apfelbaum\tcase=nominative,number=plural"
    # The most probable form does not fit, with its end symbol.
    outputs = model.predict(source, beam=8, n_best=8, max_length=10)
    kinds = [output.complete for output in outputs]
    assert kinds == sorted(kinds, reverse=True)
    assert len(set(kinds)) == 2
    assert outputs[0].score < max(output.score for output in outputs)

    # Within each kind the best comes first.
    for kind in (True, False):
        scores = [output.score for output in outputs if output.complete is kind]
        assert scores == sorted(scores, reverse=True)


def test_a_string_is_one_source_and_has_one_result(model: pam.TrainedModel) -> None:
    source = SOURCES[0]
    assert model.predict(source) == model.predict([source])[0]
    assert model.predict(source, beam=3, n_best=2) == model.predict([source], beam=3, n_best=2)[0]
    assert model.predict(text for text in SOURCES) == model.predict(SOURCES)
    assert model.predict([]) == []

    score = model.score(source, "Haus")
    (listed,) = model.score([source], ["Haus"])
    assert score.symbols == listed.symbols
    np.testing.assert_array_equal(score.log_probs, listed.log_probs)

    # A word without features is no source, however many letters it has.
    with pytest.raises(UserError, match="source 0"):
        model.predict("Haus")


def test_the_settings_of_a_search_are_those_of_the_configuration() -> None:
    of_calls = {"sample", "seed", "top_k", "top_p", "prefix", "include", "exclude"}
    settings = set(api.Settings.__annotations__) - of_calls
    assert settings == set(Decoding.model_fields) - set(api.OF_EXPERIMENTS)
    assert set(api.OF_SEARCH) <= settings


@pytest.mark.parametrize("method", ["predict", "score", "attention"])
def test_types_tell_one_result_from_several(method: str) -> None:
    overloads = [
        get_type_hints(o, api.__dict__) for o in get_overloads(getattr(api.TrainedModel, method))
    ]
    result_of = {(hints["sources"], hints.get("n_best")): hints["return"] for hints in overloads}
    assert len(result_of) == len(overloads) > 1
    for (sources, n_best), result in result_of.items():
        one = result_of[str, n_best]
        assert result == (one if sources is str else list[one])  # type: ignore[valid-type]


def test_outputs_that_are_drawn_depend_on_the_seed_alone(model: pam.TrainedModel) -> None:
    texts = [model.predict(SOURCES, sample=True, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_outputs_begin_with_a_prefix_and_have_words_or_not(model: pam.TrainedModel) -> None:
    outputs = model.predict(
        SOURCES, beam=4, prefix=["Hä", "Ti"], include=[["e"], []], exclude=["r"]
    )
    assert outputs[0].startswith("Hä") and "e" in outputs[0] and "r" not in outputs[0]
    assert outputs[1].startswith("Ti") and "r" not in outputs[1]

    for output in model.predict(SOURCES, beam=4, n_best=2, prefix="Ta", include=["us"]):
        assert all(text.text.startswith("Ta") and "us" in text.text for text in output)
    # The log p is the model's own.
    (output,) = model.predict(SOURCES[0], n_best=1, prefix="Häu")
    expected = model.score(SOURCES[0], output.text).log_probs[: len(output.symbols)]
    assert output.log_prob == pytest.approx(expected.sum(), abs=1e-4)
    # No output has a word that the model cannot write.
    assert model.predict(SOURCES, exclude=["漢"]) == model.predict(SOURCES)


def test_constraints_follow_words_of_subwords() -> None:
    translator = pam.load("pretrained:phrases/postr-joint")
    source = "Am 14. Mai waren es 5 Grad Celsius in Irland."
    assert translator.predict(source, prefix="On May 14").startswith("On May 14")
    assert "It" not in translator.predict(source, exclude=["It"])
    included = translator.predict([source] * 2, beam=8, include=[["Germany"], ["people"]])
    assert "Germany" in included[0] and "people" in included[1]


def test_a_score_is_the_likelihood_that_search_reports(model: pam.TrainedModel) -> None:
    outputs = model.predict(SOURCES, beam=2, n_best=1)
    best = [output for (output,) in outputs if output.complete]
    scores = model.score(SOURCES, [output.text for output in best])
    for output, score in zip(best, scores, strict=True):
        assert score.log_prob == pytest.approx(output.log_prob, abs=1e-4)
        assert score.symbols == [*output.text, "</s>"]
        assert score.perplexity == pytest.approx(
            np.exp(-output.log_prob / len(score.symbols)), rel=1e-3
        )


def test_results_compare_by_identity(model: pam.TrainedModel) -> None:
    score = model.score(SOURCES[0], "Haus")
    look = model.attention(SOURCES[0], "Haus")
    assert score == score and look == look and model == model
    assert score != model.score(SOURCES[0], "Haus")
    assert len({score, look, model}) == 3


def test_symbols_that_the_model_cannot_write_are_told_with_their_score(
    model: pam.TrainedModel,
) -> None:
    known, foreign = model.score([SOURCES[0]] * 2, ["Haus", "H漢us"])
    assert known.unseen == []
    assert foreign.unseen == ["漢"]
    assert foreign.symbols == [*"H漢us", "</s>"]


@contextmanager
def training(network: torch.nn.Module) -> Iterator[None]:
    network.train()
    yield
    assert all(part.training for part in network.modules())


@pytest.mark.parametrize(
    "state",
    [training, lambda _: torch.autocast("cpu", torch.bfloat16), lambda _: torch.inference_mode()],
    ids=["training", "autocast", "inference mode"],
)
def test_the_state_that_a_caller_leaves_changes_no_answer(state: Any) -> None:
    model = pam.load("pretrained:nouns/postr-joint")

    def answers() -> list[Any]:
        score = model.score(SOURCES, ["Haus", "Tisches"])
        look = model.attention(SOURCES[0], "Haus")
        outputs = model.predict(SOURCES, beam=3, n_best=2)
        return [outputs, [list(of_pair.log_probs) for of_pair in score], look.alignment.tolist()]

    expected = answers()
    with state(model.saved.network):
        assert answers() == expected
        assert answers() == expected


def test_attention_is_a_distribution_that_the_symbol_updates_and_a_picture(
    model: pam.TrainedModel,
) -> None:
    look = model.attention(SOURCES[0], "Häusern")
    assert look.source == ["case=dative", "number=plural", *"Haus", "</s>"]
    assert look.target == [*"Häusern", "</s>"]
    assert look.posterior is not None
    for weights in (look.prior, look.alignment, look.posterior):
        assert weights.shape == (len(look.target), len(look.source))
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-5)

    assert np.abs(look.posterior - look.prior).max() > 0.01

    axes = look.plot(which="posterior")
    assert [label.get_text() for label in axes.get_yticklabels()] == [*look.source[:-1], "⏎"]
    with pytest.raises(UserError, match="no attention of the kind `nothing`"):
        look.plot(which="nothing")


def test_weights_have_a_row_and_a_column_for_each_symbol() -> None:
    weights = np.full((2, 3), 1 / 3)
    parts: dict[str, Any] = {"label": "Soft", "prior": weights, "alignment": weights}
    pam.AttentionMap(**parts, source=["a", "b", "c"], target=["d", "e"], posterior=weights)
    with pytest.raises(ValueError, match="expected"):
        pam.AttentionMap(**parts, source=["a", "b"], target=["d", "e"], posterior=None)
    with pytest.raises(ValueError, match="expected"):
        pam.AttentionMap(
            **parts, source=["a", "b", "c"], target=["d", "e"], posterior=weights[:, :1]
        )


def test_what_is_not_read_of_a_source_has_no_weights(
    model: pam.TrainedModel, trained: Path
) -> None:
    decoding = model.decoding.model_copy(update={"max_source": 4})
    config = model.config.model_copy(update={"decoding": decoding})
    short = replace(model, config=config)

    look = short.attention(SOURCES[0], "Häusern")
    assert look.source == ["case=dative", "number=plural", "H", "a"]
    assert look.alignment.shape == (8, 4)
    np.testing.assert_allclose(look.alignment.sum(1), 1.0, atol=1e-5)
    assert short.predict(SOURCES[0]) == model.predict(SOURCES[0], max_source=4)


def test_attention_of_many_sources_is_that_of_each(model: pam.TrainedModel) -> None:
    targets = ["Häusern", "Tischs"]
    looks = model.attention(SOURCES, targets)
    for source, target, look in zip(SOURCES, targets, looks, strict=True):
        alone = model.attention(source, target)
        assert (look.source, look.target) == (alone.source, alone.target)
        assert look.posterior is not None and alone.posterior is not None
        np.testing.assert_allclose(look.prior, alone.prior, atol=1e-6)
        np.testing.assert_allclose(look.posterior, alone.posterior, atol=1e-6)

    own = model.attention(SOURCES)
    assert ["".join(look.target[:-1]) for look in own] == model.predict(SOURCES)
    assert model.attention([]) == []


def test_details_of_outputs_are_those_of_their_texts(model: pam.TrainedModel) -> None:
    sources = [SOURCES[0], "Ei\tcase=dative"]
    plain = model.predict(sources, beam=3, n_best=2)
    detailed = model.predict(sources, beam=3, n_best=2, details=True, batch_size=3)
    for source, outputs, with_details in zip(sources, plain, detailed, strict=True):
        for output, detail in zip(outputs, with_details, strict=True):
            assert output.log_probs is output.attention is output.copied is None
            assert (detail.text, detail.symbols) == (output.text, output.symbols)
            assert detail.log_probs is not None and detail.attention is not None
            assert detail.log_probs.sum() == pytest.approx(output.log_prob, abs=1e-4)
            assert detail.copied is None

            # What was cut short has no end symbol.
            n = len(output.symbols)
            assert output.complete == (output.symbols[-1] == "</s>")
            score = model.score(source, output.text)
            look = model.attention(source, output.text)
            np.testing.assert_allclose(detail.log_probs, score.log_probs[:n], atol=1e-5)
            np.testing.assert_allclose(detail.attention.prior, look.prior[:n], atol=1e-5)
            assert detail.attention.target == look.target[:n]
            assert detail.attention.source == look.source


def test_details_follow_what_is_read_of_a_source(model: pam.TrainedModel) -> None:
    (output,) = model.predict(SOURCES[0], n_best=1, details=True, max_source=4)
    assert output.attention is not None
    assert output.attention.source == ["case=dative", "number=plural", "H", "a"]


def test_unseen_symbols_of_sources_are_warned_of_once_for_all(
    model: pam.TrainedModel, trained: Path, called: Call
) -> None:
    strange = "H漢us\tcase=dative,number=plural"
    typed = f"{SOURCES[0]}\n{strange}\n"
    command = called("predict", "--model", trained / "model", typed=typed).err.splitlines()
    expected = [line.replace("line 2:", "source 1:") for line in command if "line 2:" in line]
    assert any("漢" in text for text in expected)

    for call in (model.predict, model.attention, lambda texts: model.score(texts, texts)):
        with pytest.warns(pam.InputWarning) as warned:
            call([SOURCES[0], strange])
        (warning,) = warned
        assert "source 1" in str(warning.message) and "漢" in str(warning.message)
        assert warning.filename == __file__

    with pytest.warns(pam.InputWarning) as warned:
        model.predict([SOURCES[0], strange])
    assert all(text in str(warned[0].message) for text in expected)
    # However many they are, a warning stays short.
    with pytest.warns(pam.InputWarning, match=r"and \d+ more") as warned:
        model.predict([strange] * 50)
    assert len(str(warned[0].message)) < 1000


def test_a_model_moves_to_a_device_that_can_be_used(model: pam.TrainedModel) -> None:
    assert model.to("cpu") is model
    assert model.device == torch.device("cpu")
    moved = copy.deepcopy(model).to(torch.device("cpu"))
    assert moved.predict(SOURCES) == model.predict(SOURCES)
    with pytest.raises(UserError, match="device"):
        model.to("gpu")


def test_a_target_is_read_in_composed_letters_as_training_text_is() -> None:
    translator = pam.load("pretrained:phrases/soft")
    source = "Am Montag kostet das Haus 8.500 Euro."

    scores = [
        translator.score([source], [unicodedata.normalize(form, "Málaga is big.")])[0]
        for form in ("NFC", "NFD")
    ]
    assert scores[0].symbols == scores[1].symbols
    assert scores[0].log_prob == scores[1].log_prob


def test_symbols_that_training_did_not_have_are_listed(model: pam.TrainedModel) -> None:
    assert model.unseen("H漢us\tmood=x") == ["mood=x", "漢"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.predict(["Haus"]), "source 0: expected a lemma, a tab and features"),
        (lambda model: model.predict([SOURCES[0], "\tx=y"]), "source 1: expected a lemma"),
        (lambda model: model.predict(SOURCES, beam=0), "beam"),
        (lambda model: model.predict(SOURCES, lenght_penalty=1.0), "lenght_penalty"),
        (lambda model: model.predict(SOURCES, beam=1, n_best=2), "2 outputs of a beam of 1"),
        (lambda model: model.predict(SOURCES, n_best=0), "0 outputs"),
        (lambda model: model.predict(SOURCES, n_best=-1), "-1 outputs"),
        (lambda model: model.predict(SOURCES, n_best=1.5), "1.5 outputs"),
        (lambda model: model.predict(SOURCES, sample=True, temperature=0), "temperature 0"),
        (lambda model: model.predict(SOURCES, sample=True, temperature=-1.0), "temperature -1.0"),
        (lambda model: model.predict(SOURCES, sample=True, temperature=np.nan), "temperature nan"),
        (lambda model: model.predict(SOURCES, sample=True, seed=-1), "seed -1"),
        (lambda model: model.predict(SOURCES, sample=True, beam=3), "`beam`"),
        (lambda model: model.predict(SOURCES, sample=True, length_prior=0.5), "`length_prior`"),
        (lambda model: model.predict(SOURCES, temperature=0.5), "`temperature`"),
        (lambda model: model.predict(SOURCES, seed=3), "`seed`"),
        (lambda model: model.predict(SOURCES, details=True), "`details`"),
        (lambda model: model.predict(SOURCES, top_k=3), "`top_k`"),
        (lambda model: model.predict(SOURCES, sample=True, top_k=0), "top_k 0"),
        (lambda model: model.predict(SOURCES, sample=True, top_k=1.5), "top_k 1.5"),
        (lambda model: model.predict(SOURCES, sample=True, top_p=0), "top_p 0"),
        (lambda model: model.predict(SOURCES, sample=True, top_p=np.nan), "top_p nan"),
        (lambda model: model.predict(SOURCES, prefix=["H"]), "`prefix` does not fit 2 sources"),
        (lambda model: model.predict(SOURCES, prefix=["H", 3]), "source 1: `prefix`"),
        (lambda model: model.predict(SOURCES, prefix=["H", "漢"]), "source 1: .*漢"),
        (lambda model: model.predict(SOURCES, prefix="H" * 99), "source 0: 99 symbols"),
        (lambda model: model.predict(SOURCES, include="Haus"), "`include`"),
        (lambda model: model.predict(SOURCES, include=["e", " "], beam=5), "source 0: `include`"),
        (lambda model: model.predict(SOURCES, include=["us"], beam=2), "source 0: a beam of 2"),
        (lambda model: model.predict(SOURCES, include=["e"], exclude=["e"], beam=5), "source 0"),
        (lambda model: model.predict(SOURCES, include=["e"], sample=True), "source 0"),
        (lambda model: model.predict(SOURCES, exclude=["e"], replace_unknown=True), "`exclude`"),
        (
            lambda model: model.predict(SOURCES, n_best=1, details=True, latent_samples=2),
            "`details`",
        ),
        (lambda model: model.predict(SOURCES, beams=[2, 3]), "`beams`"),
        (lambda model: model.predict(SOURCES, dev=True), "`dev`"),
        (lambda model: model.predict([SOURCES[0], 3]), "source 1"),
        (lambda model: model.predict([None]), "source 0"),
        (lambda model: model.predict(7), "`sources`"),
        (lambda model: model.score(SOURCES, ["Haus"]), "2 sources and 1 targets"),
        (lambda model: model.score(SOURCES, ["Haus", None]), "target 1"),
        (lambda model: model.score(SOURCES[0], ["Haus"]), "single text"),
        (lambda model: model.attention("Haus"), "expected a lemma"),
        (lambda model: model.attention(SOURCES[0], 3), "`targets`"),
        (lambda model: model.attention(SOURCES, ["Haus", 3]), "target 1"),
        (lambda model: model.attention(SOURCES, ["Haus"]), "2 sources and 1 targets"),
        (lambda model: model.attention(SOURCES, "Haus"), "single text"),
        (lambda model: model.unseen(None), "source 0"),
        (lambda model: model.predict(SOURCES, sample=True, temperature="0.7"), "temperature 0.7"),
        (lambda model: model.align(["a", 3], ["b", "c"]), "source 1"),
        (lambda model: model.align("a", "b", treshold=0.5), "treshold"),
        (lambda model: model.align("a", "b", threshold="0.5"), "threshold of 0.5"),
        (lambda model: model.align("a", "b", reverse="pretrained:nouns/soft"), "`reverse`"),
    ],
)
def test_what_is_wrong_is_said(model: pam.TrainedModel, call: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        call(model)  # type: ignore[operator]
    assert error.value.hint


def test_words_that_were_tokenized_otherwise_are_read_as_the_model_knows_them() -> None:
    # Moses splits a time at its colon; the text of the model was tokenized without it.
    phrases = pam.load("pretrained:phrases/postr-joint")
    source = "Wenn die Messe am Sonntag beginnt, kommt Robert um 15:00 Uhr."
    answer = phrases.predict(source)

    assert answer == "When the fair starts on Sunday, Robert comes at 3:00 PM."
    assert phrases.unseen(source) == phrases.score(source, answer).unseen == []
    assert "3:00" not in phrases.predict(source, exclude=["3:00"])


def test_arrays_and_whole_numbers_of_numpy_are_taken(model: pam.TrainedModel) -> None:
    words: dict[str, Any] = {"exclude": ["e"], "prefix": ["H", "W"], "n_best": 2, "beam": 4}
    arrays = {
        "exclude": np.array(["e"]),
        "prefix": pd.Series(["H", "W"]),
        "n_best": np.int64(2),
        "beam": 4,
    }
    assert model.predict(SOURCES, **arrays) == model.predict(SOURCES, **words)


def test_settings_of_drawing_are_used(model: pam.TrainedModel) -> None:
    decoding = model.decoding.model_copy(update={"temperature": 3.0})
    drawing = replace(model, config=model.config.model_copy(update={"decoding": decoding}))

    as_configured = model.predict(SOURCES, sample=True, temperature=3.0, seed=model.config.seed)
    assert drawing.predict(SOURCES) == as_configured
    assert drawing.predict(SOURCES, sample=False) == model.predict(SOURCES)
    cold = model.predict(SOURCES, sample=True, temperature=1e-300)
    assert drawing.predict(SOURCES, temperature=1e-300) == cold == model.predict(SOURCES)


def test_a_name_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(str(tmp_path / "none"))):
        pam.load(tmp_path / "none")
    with pytest.raises(UserError) as error:
        pam.load("nouns/soft")
    assert "pretrained:nouns/soft" in str(error.value.hint)
    with pytest.raises(UserError, match="no pretrained model `none`"):
        pam.load("pretrained:none")


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", "", None])
def test_a_device_that_cannot_be_used_is_refused(device: Any) -> None:
    with pytest.raises(UserError, match="device") as error:
        pam.load("pretrained:nouns/soft", device=device)
    assert "cpu" in str(error.value.hint)
    assert error.value.file is None


def test_any_device_of_torch_is_taken_and_the_process_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = pam.load("pretrained:nouns/soft", device=torch.device("cpu"))
    assert next(model.saved.network.parameters()).device.type == "cpu"

    def refuse(device: object) -> None:
        raise AssertionError(f"the process is on device {device} now")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    assert usable_device("cuda:1") == torch.device("cuda:1")
    assert usable_device("auto").type == "cuda"
    with pytest.raises(UserError, match="cuda:2"):
        usable_device("cuda:2")


def test_loading_leaves_random_numbers_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    pam.load("pretrained:nouns/soft")
    assert torch.equal(torch.rand(3), expected)


def predicted(model: pam.TrainedModel) -> list[str]:
    # The table of lengths lies beside the weights of a model.
    return model.predict(SOURCES, beam=2, length_prior=0.5)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_model_of_a_file_is_copied_and_sent_to_other_processes(
    exported: Path, tmp_path: Path, start: str
) -> None:
    file = tmp_path / "model.pam"
    shutil.copyfile(exported, file)
    model = pam.load(file)
    file.unlink()
    expected = predicted(model)

    copied = copy.deepcopy(model)
    unpickled = pickle.loads(pickle.dumps(model))  # noqa: S301 -- made on this line
    assert predicted(copied) == predicted(unpickled) == expected

    with multiprocessing.get_context(start).Pool(1) as pool:
        assert pool.apply(predicted, [model]) == expected
        pool.close()
        pool.join()
    assert predicted(model) == expected


def test_the_first_commands_of_the_start_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    start = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    command = r"^\$ (printf|echo) '(.*)' \| pam predict --pretrained (\S+)\n(.*)\n"
    examples = re.findall(command, start, flags=re.MULTILINE)
    assert [name for *_, name, _ in examples] == ["nouns/postr-joint", "phrases/postr-joint"]

    # Nothing of the repository is needed but the package.
    monkeypatch.chdir(tmp_path)
    for program, text, name, output in examples:
        typed = text.replace("\\t", "\t").replace("\\n", "\n")
        if program == "echo":
            typed += "\n"
        result = called("predict", "--pretrained", name, typed=typed)
        assert (result.code, result.out) == (0, f"{output}\n")


def test_the_answers_for_a_file_are_those_that_the_start_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    start = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    command = r"^\$ printf '([^\n]*)' > words\.tsv\n\$ pam ([^\n]*)\n(.*?)^```"
    ((text, words, shown),) = re.findall(command, start, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    typed = text.replace("\\t", "\t").replace("\\n", "\n")
    Path("words.tsv").write_text(typed, encoding="utf-8")

    result = called(*shlex.split(words))
    # The page breaks long lines.
    *answers, note = shown.replace("\n ", " ").splitlines()

    assert (result.code, result.err) == (0, f"{note}\n")
    assert Path("words.svg").is_file()
    for line, answer in zip(result.out.splitlines(), answers, strict=True):
        printed = json.loads(line)
        expected = json.loads(answer)
        for output, expected_output in zip(printed["outputs"], expected["outputs"], strict=True):
            for name in ("score", "log_prob"):
                value = expected_output.pop(name)
                assert output.pop(name) == pytest.approx(value, abs=0.001)
        assert printed == expected


# Exported models.


def test_an_exported_file_is_the_same_model_anywhere(
    model: pam.TrainedModel, exported: Path, called: Call
) -> None:
    elsewhere = pam.load(exported)
    assert elsewhere.predict(SOURCES) == model.predict(SOURCES)

    result = called("predict", "--model", exported, typed=f"{SOURCES[0]}\n")
    assert result.out.splitlines() == model.predict(SOURCES[:1])


def test_python_exports_what_the_command_exports(
    model: pam.TrainedModel, exported: Path, trained: Path, tmp_path: Path, called: Call
) -> None:
    assert called("export", "--run", trained, "--out", tmp_path / "command.pam").code == 0
    assert exported.read_bytes() == (tmp_path / "command.pam").read_bytes()

    # A file that is loaded is exported with its card and its choices.
    pam.load(exported).export(tmp_path / "again.pam")
    assert (tmp_path / "again.pam").read_bytes() == exported.read_bytes()
    choice = Choice(beam=3, length_penalty_form="power", chosen=0.8, candidates=[])
    replace(pam.load(exported), choices={3: choice}).export(tmp_path / "folder", half=True)
    assert pam.load(tmp_path / "folder").choices == {3: choice}

    with pytest.raises(UserError, match="exists") as error:
        model.export(tmp_path / "again.pam")
    assert "force=True" in str(error.value.hint)
    model.export(tmp_path / "again.pam", force=True)


def test_an_export_has_the_weights_and_settings_that_a_model_has_now(
    exported: Path, tmp_path: Path
) -> None:
    model = pam.load(exported)
    decoding = model.decoding.model_copy(update={"beam": 3})
    changed = replace(model, config=model.config.model_copy(update={"decoding": decoding}))
    with torch.no_grad():
        next(changed.saved.network.parameters()).add_(1.0)
    changed.export(tmp_path / "changed.pam")

    loaded = pam.load(tmp_path / "changed.pam")
    assert loaded.decoding.beam == 3
    expected = changed.score(SOURCES[0], "Haus").log_prob
    assert loaded.score(SOURCES[0], "Haus").log_prob == expected
    assert pam.load(exported).score(SOURCES[0], "Haus").log_prob != expected


def test_an_exported_folder_has_the_layout_of_model_hubs(
    trained: Path, tmp_path: Path, called: Call
) -> None:
    out = tmp_path / "hub"
    assert called("export", "--run", trained, "--out", out, "--half").code == 0

    _, head, text = (out / "README.md").read_text(encoding="utf-8").split("---\n")
    assert yaml.safe_load(head)["library_name"] == "pam"
    assert "pam.load" in text

    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "pam"

    half = pam.load(out)
    assert {parameter.dtype for parameter in half.saved.network.parameters()} == {torch.float32}
    assert half.predict(SOURCES) == pam.load(trained).predict(SOURCES)


def test_the_card_of_an_aligner_says_how_well_it_links_words(
    trained: Path, tmp_path: Path, called: Call
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    record = ROOT / "results/reference/bench/2026-11-30-transformer-aligner.json"
    shutil.copyfile(record, run / "alignment.json")
    assert called("export", "--run", run, "--out", tmp_path / "hub").code == 0

    text = (tmp_path / "hub/README.md").read_text(encoding="utf-8")
    assert "| aer | 0.235 | [0.224, 0.247] | 508 |" in text
    assert "model.align(" in text


def test_an_export_that_fails_leaves_no_folder_and_the_next_one_succeeds(
    trained: Path, tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "shared/hub"

    def full(model: object, origin: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("pam.library.exporting.card", full)
        message, _ = called("export", "--run", trained, "--out", out).message()
    assert message == f"{out}: the disk is full"
    assert list(out.parent.iterdir()) == []

    out.mkdir()
    assert called("export", "--run", trained, "--out", out).code == 0
    assert pam.load(out).label == "postr-joint"

    # A shell that stands in a folder would lose it.
    monkeypatch.chdir(tmp_path / "shared")
    out.rename(tmp_path / "hub")
    message, _ = called("export", "--run", trained, "--out", ".").message()
    assert message == ".: the folder in which this command runs"


@pytest.fixture(scope="module")
def served(exported: Path) -> Iterator[str]:
    """The address of a server that has the folder of the exported model."""
    handler = partial(Quiet, directory=str(exported.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as in its base
        """Write nothing."""


def test_a_model_is_loaded_from_an_address_by_its_hash(
    model: pam.TrainedModel, exported: Path, served: str
) -> None:
    sha256 = sha256_of(exported)
    for address in (f"{served}/{exported.name}", exported.as_uri(), exported, str(exported)):
        loaded = pam.load(address, sha256=sha256)
        assert loaded.predict(SOURCES) == model.predict(SOURCES)
        with pytest.raises(UserError, match=sha256) as error:
            pam.load(address, sha256="0" * 64)
        assert "hash" in str(error.value.hint)

    # Nothing is loaded that somebody may have replaced.
    for address in (f"{served}/{exported.name}", exported.as_uri()):
        with pytest.raises(UserError, match="without a hash") as error:
            pam.load(address)
        assert "sha256=" in str(error.value.hint)


def test_what_is_wrong_with_an_address_or_a_hash_is_said(
    trained: Path, served: str, tmp_path: Path
) -> None:
    known: dict[str, Any] = {"sha256": "0" * 64}
    with pytest.raises(UserError, match="404"):
        pam.load(f"{served}/none.pam", **known)
    with pytest.raises(UserError, match="no such file"):
        pam.load((tmp_path / "none.pam").as_uri(), **known)
    with pytest.raises(UserError, match="hash is for a file"):
        pam.load(trained, **known)
    with pytest.raises(UserError, match="sha256 abc"):
        pam.load(f"{served}/none.pam", sha256="abc")

    other = tmp_path / "other.pam"
    other.write_bytes(b"no model")
    with pytest.raises(UserError) as error:
        pam.load(other.as_uri(), sha256=sha256_of(other))
    assert error.value.file == other.as_uri()


def test_a_model_is_exported_to_the_same_bytes_each_time(
    trained: Path, exported: Path, called: Call
) -> None:
    again = exported.with_name("again.pam")
    assert called("export", "--run", trained, "--out", again).code == 0
    assert again.read_bytes() == exported.read_bytes()


def test_a_file_that_is_there_is_replaced_only_by_force(
    trained: Path, exported: Path, tmp_path: Path, called: Call
) -> None:
    out = tmp_path / "model.pam"
    out.write_text("precious", encoding="utf-8")
    message, hint = called("export", "--run", trained, "--out", out).message()
    assert message.startswith(str(out)) and "--force" in hint
    assert out.read_text(encoding="utf-8") == "precious"

    assert called("export", "--run", trained, "--out", out, "--force").code == 0
    assert out.read_bytes() == exported.read_bytes()

    # What cannot be replaced is not, by force either.
    folder = tmp_path / "folder.pam"
    folder.mkdir()
    file = tmp_path / "file"
    file.write_text("precious", encoding="utf-8")
    for wrong in (folder, file):
        message, _ = called("export", "--run", trained, "--out", wrong, "--force").message()
        assert message.startswith(str(wrong))
    assert folder.is_dir() and file.read_text(encoding="utf-8") == "precious"


def test_a_damaged_file_and_a_full_folder_are_refused(
    trained: Path, exported: Path, tmp_path: Path, called: Call
) -> None:
    cut = tmp_path / "cut.pam"
    cut.write_bytes(exported.read_bytes()[:-100])

    with pytest.raises(UserError, match="damaged") as error:
        pam.load(cut)
    assert error.value.file == str(cut)
    assert "export" in str(error.value.hint)
    message, hint = called("predict", "--model", cut).message()
    assert message.startswith(str(cut)) and hint == error.value.hint

    other = tmp_path / "other.pam"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("notes.txt", "no model")
    with pytest.raises(UserError, match=r"config\.yaml") as error:
        pam.load(other)
    assert error.value.file == str(other)

    changed = tmp_path / "changed.pam"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            space = b" " if name == "lengths.json" else b""
            new.writestr(name, old.read(name) + space)

    with pytest.raises(UserError, match="does not belong to the model"):
        pam.load(changed)

    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("", encoding="utf-8")

    message, _ = called("export", "--run", trained, "--out", tmp_path / "full").message()
    assert message.endswith("the folder is not empty")

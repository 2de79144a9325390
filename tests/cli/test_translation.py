"""From a trained model of translation to outputs, analyses and scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import pam
from pam.cli import main
from pam.data.vocabulary import UNK
from pam.decoding.hypotheses import LengthPrior
from pam.evaluation.attention import Analysis
from pam.evaluation.records import load
from pam.evaluation.scores import Scores
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder
from pam.experiments.settings import Decoding
from pam.library.model_files import WEIGHTS
from pam.models import options
from pam.models.checkpoint import load_model, load_tensors, save_tensors
from pam.runtime.errors import UserError
from pam.runtime.files import write_json, write_text
from tests.cli import phrases
from tests.cli.conftest import Call
from tests.training import small


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared phrases; not to be changed."""
    return phrases.prepare(tmp_path_factory.mktemp("prepared") / "phrases")


def train(data: Path, out: Path, epochs: int = 30) -> Path:
    """Train Mono-Postr-Joint over the top 2 positions, until it has learned the phrases."""
    run = small.run(
        "mono-postr-joint", epochs=epochs, batch_size=8, state_every_s=60.0, select="loss"
    )
    sizes = {"embedding": 24, "encoder": 24, "decoder": 24, "dropout": 0.0}
    # So small a model learns the phrases in fewer steps where scores are not divided.
    components = {"marginalization": options.Output(top_k=2), "score": options.General(scale=False)}
    run = run.model_copy(
        update={
            "network": run.network.model_copy(update=sizes),
            "components": run.components.model_copy(update=components),
            "decoding": Decoding(beam=3, batch_size=4),
        }
    )
    small.write_run(out, run)

    arguments = ["train", "--run", out, "--data", data]
    assert main([*map(str, arguments), "--device", "cpu"]) == 0

    return out


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a training; not to be changed."""
    return train(data, tmp_path_factory.mktemp("trained"))


def table(path: Path) -> list[dict[str, str]]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    return [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]


def test_a_raw_sentence_is_typed_and_a_readable_one_comes_back(called: Call, trained: Path) -> None:
    typed = "Das rote Haus ist groß.\n\nDas alte Buch ist schön.\n"
    result = called("predict", "--model", trained / "model", typed=typed)

    assert (result.code, result.err) == (0, "")
    assert result.out == "the red house is big.\n\nthe old book is beautiful.\n"


def test_a_split_is_decoded_to_words_and_to_text(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "beam3/predictions.tsv"
    record = tmp_path / "beam3/decoding.json"

    arguments = ["--model", trained / "model", "--data", data, "--out", out, "--record", record]
    assert called("predict", *arguments).code == 0

    rows = table(out)
    assert list(rows[0]) == ["source", "target", "predicted", "log_prob", "text"]
    assert rows[0]["target"] == rows[0]["predicted"] == "the blue house is big ."
    assert rows[0]["text"] == "the blue house is big."

    counts = json.loads(record.read_text(encoding="utf-8"))
    assert (counts["beam"], counts["sentences"], counts["unseen"]) == (3, 6, {"boot": 1})
    assert counts["unseen_total"] == 1 and counts["cut_short"] == counts["replaced"] == 0


def test_an_unknown_word_is_replaced_by_the_one_attended(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    model = unlearned(Path(shutil.copytree(trained / "model", tmp_path / "model")), "house")
    out = tmp_path / "p.tsv"
    record = tmp_path / "decoding.json"

    files = ["--data", data, "--out", out, "--record", record]
    assert called("predict", "--model", model, *files).code == 0

    plain = table(out)[0]
    assert plain["predicted"] == "the blue <unk> is big ."
    assert called("predict", "--model", model, *files, "--replace-unknown").code == 0

    replaced = table(out)[0]
    words = replaced["predicted"].split()

    assert words.pop(2) in plain["source"].split()
    assert words == ["the", "blue", "is", "big", "."]
    assert json.loads(record.read_text(encoding="utf-8"))["replaced"] >= 1


def unlearned(model: Path, word: str) -> Path:
    """Change a model as if its vocabulary had lacked a target word: unknown takes its place."""
    (number,) = load_model(model).target.encode([word])
    tensors, notes = load_tensors(model / WEIGHTS)
    for name, tensor in tensors.items():
        if name.startswith(("readout.output.", "decoder.embedding.")):
            tensor[[UNK, number]] = tensor[[number, UNK]]

    save_tensors(model / WEIGHTS, tensors, notes)
    return model


def test_several_outputs_come_with_rank_and_score(called: Call, trained: Path) -> None:
    arguments = ["predict", "--model", trained / "model", "--n-best", 3]
    result = called(*arguments, typed="\nDas rote Haus ist groß.\n")

    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[:2] for row in rows] == [["2", "1"], ["2", "2"], ["2", "3"]]

    scores = [float(row[2]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[0][3] == "the red house is big." and len({row[3] for row in rows}) == 3


def test_several_outputs_of_a_split_are_ranked(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.tsv"
    arguments = ["--model", trained / "model", "--data", data, "--out", out, "--n-best", 2]

    assert called("predict", *arguments, "--length-penalty", 1).code == 0

    rows = table(out)
    assert [row["rank"] for row in rows] == ["1", "2"] * 6
    for row in rows:
        symbols = len(row["predicted"].split()) + 1
        assert float(row["score"]) == pytest.approx(float(row["log_prob"]) / symbols, abs=1e-5)


def test_samples_are_the_same_for_a_seed(called: Call, trained: Path) -> None:
    def drawn(*options: object) -> str:
        arguments = ["predict", "--model", trained / "model", "--sample", "--n-best", 5]
        return called(*arguments, *options, typed="Das rote Haus ist groß.\n").out

    assert drawn("--temperature", 3) == drawn("--temperature", 3, "--seed", 1)
    assert drawn("--temperature", 3) != drawn("--temperature", 3, "--seed", 2)

    cold = {line.split("\t")[3] for line in drawn("--temperature", 0.01).splitlines()}
    assert cold == {"the red house is big."}


def run_folder(folder: Path, trained: Path, run: RunConfig) -> Path:
    """Write a run of the same model with a configuration of its own."""
    if not (folder / "run/model").exists():
        shutil.copytree(trained / "model", folder / "run/model")
    return small.write_run(folder / "run", run).parent


def test_a_run_with_a_temperature_is_sampled_by_its_seed(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    def drawn(seed: int) -> str:
        run = load_run(trained / "model/config.yaml")
        run = run.model_copy(
            update={"seed": seed, "decoding": run.decoding.model_copy(update={"temperature": 3.0})}
        )
        out = tmp_path / "p.tsv"
        record = tmp_path / "decoding.json"

        folder = run_folder(tmp_path, trained, run)
        arguments = ["--run", folder, "--data", data, "--beam", 4]
        assert called("predict", *arguments, "--out", out, "--record", record).code == 0

        sampling = json.loads(record.read_text(encoding="utf-8"))["sampling"]
        assert sampling == {"temperature": 3.0, "seed": seed}

        # The library draws the same.
        sources = [source for source, _ in phrases.SPLITS["test"]]
        texts = [row["text"] for row in table(out)]
        assert pam.load(folder).predict(sources) == texts

        return out.read_text(encoding="utf-8")

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_prior_of_lengths_adds_to_the_score(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.tsv"
    prior = LengthPrior.load(trained / "model/lengths.json")

    arguments = ["--model", trained / "model", "--data", data, "--out", out, "--n-best", 3]
    assert called("predict", *arguments, "--length-prior", 2).code == 0

    lengths = set()
    for row in table(out):
        length = len(row["predicted"].split())
        bonus = 2 * prior.log_probs(len(row["source"].split()), 20)[length]
        assert float(row["score"]) == pytest.approx(float(row["log_prob"]) + bonus, abs=1e-5)
        lengths.add(length)
    assert len(lengths) > 1


def test_a_model_without_its_table_of_lengths_is_named(
    called: Call, trained: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(trained / "model", tmp_path / "model"))
    (model / "lengths.json").unlink()

    result = called("predict", "--model", model, "--length-prior", 1, typed="Das Haus.\n")
    assert result.message()[0] == f"{model / 'lengths.json'}: no such file"


def test_a_runs_decoding_may_differ_from_the_one_trained_with(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    run = load_run(trained / "model/config.yaml")
    changed = run.decoding.model_copy(update={"length_penalty": 0.5})

    folder = run_folder(tmp_path, trained, run.model_copy(update={"decoding": changed}))
    assert called("predict", "--run", folder, "--data", data, "--beam", 2).code == 0

    decoding = json.loads((folder / "beam2/decoding.json").read_text(encoding="utf-8"))
    assert (decoding["beam"], decoding["length_penalty"]) == (2, 0.5)


def test_a_length_penalty_is_chosen_scored_beside_none_and_shown(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    run = load_run(trained / "model/config.yaml")
    changed = run.decoding.model_copy(
        update={"length_penalties": [0.0, 5.0], "length_penalty_form": "wu"}
    )
    folder = run_folder(tmp_path, trained, run.model_copy(update={"decoding": changed}))
    run_and_data = ["--run", folder, "--data", data]

    missing = called("predict", *run_and_data).message()
    assert missing[0].endswith("no length penalty was chosen") and "--beam 3" in missing[1]
    assert called("length-penalty", *run_and_data).code == 0

    choice = folder / "beam3/length_penalty.json"
    choice_record = json.loads(choice.read_text(encoding="utf-8"))
    assert (choice_record["beam"], choice_record["length_penalty_form"]) == (3, "wu")
    assert all(
        50 < candidate["bleu"] <= 100 and 0.5 < candidate["length_ratio"] < 2
        for candidate in choice_record["candidates"]
    )

    # It is decoded with the other candidate, as if that one had been better.
    choice.write_text(json.dumps(choice_record | {"chosen": 5.0}), encoding="utf-8")
    assert called("predict", *run_and_data).code == 0

    rows = table(folder / "beam3/predictions.tsv")
    assert list(rows[0])[-1] == "unpenalized" and len(rows) == 6

    # Outputs with the penalty and without are both scored.
    out = tmp_path / "scores.json"
    files: list[Any] = ["--predictions", folder / "beam3/predictions.tsv"]
    files += ["--decoding", folder / "beam3/decoding.json"]
    assert called("score", *files, "--data", data, "--out", out).code == 0
    scores = json.loads(out.read_text(encoding="utf-8"))
    words = {
        name: sum(len(row[name].split()) for row in rows)
        for name in ("target", "predicted", "unpenalized")
    }
    ratio = scores["metrics"]["length_ratio_b3"]["value"]
    assert ratio == pytest.approx(words["predicted"] / words["target"])
    unpenalized_ratio = scores["metrics"]["length_ratio_unpenalized_b3"]["value"]
    assert unpenalized_ratio == pytest.approx(words["unpenalized"] / words["target"])

    # The table of lengths shows both.
    identity = {
        name: getattr(run, name) for name in ("experiment", "task", "model", "label", "seed")
    }
    write_text(out, json.dumps(scores | identity))
    experiment = (
        f"experiment: {run.experiment}\nmodels: [{run.model}]\ntasks: {{{run.task}: {{dataset:"
        " phrases}}\n"
    )
    write_text(tmp_path / "experiment.yaml", experiment)

    inputs = ["--experiment", tmp_path / "experiment.yaml", "--scores", out, "--out", tmp_path]
    assert called("tables", "--table", "lengths", *inputs).code == 0

    header, row = (tmp_path / "lengths.csv").read_text(encoding="utf-8").splitlines()
    table_row = dict(zip(header.split(","), row.split(","), strict=True))

    assert (table_row["beam"], table_row["length_penalty"], table_row["length_penalty_form"]) == (
        "3",
        "5",
        "wu",
    )

    bleu, plain = (scores["metrics"][name]["value"] for name in ("bleu_b3", "bleu_unpenalized_b3"))
    assert float(table_row["gain"]) == pytest.approx(bleu - plain, abs=1e-4)


def test_the_library_and_an_exported_model_decode_as_the_run_does(
    called: Call, trained: Path, tmp_path: Path
) -> None:
    source = "Das rote Haus ist groß."
    run = load_run(trained / "model/config.yaml")
    decoding = run.decoding.model_copy(update={"beam": 4, "length_penalties": [0.0, 3.0]})
    folder = run_folder(tmp_path, trained, run.model_copy(update={"decoding": decoding}))

    unchosen = pam.load(folder)
    with pytest.raises(UserError, match="no length penalty was chosen") as error:
        unchosen.predict([source])
    assert "length_penalty=" in str(error.value.hint)

    candidates = [
        {"length_penalty": penalty, "bleu": 1.0, "length_ratio": 1.0} for penalty in (0.0, 3.0)
    ]
    choice = {"beam": 4, "length_penalty_form": "power", "chosen": 3.0, "candidates": candidates}
    write_json(RunFolder(folder).length_penalty(4), choice)
    exported = tmp_path / "model.pam"
    assert called("export", "--run", folder, "--out", exported).code == 0

    answers = called("predict", "--run", folder, "--n-best", 4, typed=f"{source}\n").out
    assert called("predict", "--model", exported, "--n-best", 4, typed=f"{source}\n").out == answers
    expected = [line.split("\t")[2:] for line in answers.splitlines()]
    for model in (pam.load(folder), pam.load(exported)):
        (outputs,) = model.predict([source], n_best=4)
        assert [[f"{output.score:.4f}", output.text] for output in outputs] == expected
        assert outputs[0].score != outputs[0].log_prob

        # It can be given, and is then not asked for where none was chosen.
        (outputs,) = model.predict([source], n_best=2, beam=2, length_penalty=0.0)
        assert [output.score for output in outputs] == [output.log_prob for output in outputs]
        with pytest.raises(UserError, match="length penalty was chosen"):
            model.predict([source], beam=2)
        with pytest.raises(UserError, match="`length_penalties` is for experiments"):
            model.predict([source], length_penalties=[0.0, 1.0])


def test_a_penalty_chosen_out_of_other_candidates_is_refused(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    run = load_run(trained / "model/config.yaml")
    for candidates in ([0.0, 1.0], [0.0, 2.0]):
        changed = run.decoding.model_copy(update={"length_penalties": candidates})
        folder = run_folder(tmp_path, trained, run.model_copy(update={"decoding": changed}))
        if candidates == [0.0, 1.0]:
            assert called("length-penalty", "--run", folder, "--data", data).code == 0

    result = called("predict", "--run", folder, "--data", data).message()
    assert result[0].endswith("this length penalty was chosen from other candidates")

    # What is given is not asked for.
    arguments = ["--data", data, "--out", tmp_path / "p.tsv", "--length-penalty", 2]
    assert called("predict", "--run", folder, *arguments).code == 0
    assert "unpenalized" not in table(tmp_path / "p.tsv")[0]


def test_a_run_without_candidates_has_none_to_choose_from(
    called: Call, trained: Path, data: Path
) -> None:
    result = called("length-penalty", "--run", trained, "--data", data).message()
    assert result == (
        "no length penalties to choose from",
        "list some in `decoding.length_penalties`",
    )


def test_analyses_and_scores_of_a_run(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    run = ["--run", trained]
    gold = phrases.gold(data, tmp_path / "gold")

    for beam in (1, 4):
        files = ["--out", tmp_path / f"{beam}.tsv", "--record", tmp_path / f"{beam}.json"]
        assert called("predict", *run, "--data", data, "--beam", beam, *files).code == 0

    assert called("analyze", *run, "--data", data, "--out", tmp_path / "a.json").code == 0

    arguments: list[Any] = ["--predictions", tmp_path / "4.tsv", tmp_path / "1.tsv"]
    arguments += ["--decoding", tmp_path / "4.json", tmp_path / "1.json", "--data", data]

    arguments += ["--analysis", tmp_path / "a.json", "--training", trained / "training.json"]
    assert called("score", *arguments, "--out", tmp_path / "scores.json").code == 0

    scores = load(Scores, tmp_path / "scores.json")
    assert 70 < scores.metrics["bleu_b4"].value < 100
    assert 1 < scores.metrics["ppl_exact"].value <= scores.metrics["ppl"].value < 3

    gold_analysis = ["--out", tmp_path / "gold_analysis.json"]
    assert called("analyze", *run, "--data", gold, "--split", "gold", *gold_analysis).code == 0

    analysis = load(Analysis, tmp_path / "gold_analysis.json")
    assert analysis.sentences.tokens == [7] * 6 and analysis.sentences.source_words == [6] * 6
    assert [target for _, target in analysis.sentences.links[0]] == list(range(6))

    arguments = ["--analysis", tmp_path / "gold_analysis.json", "--data", gold, "--split", "gold"]
    result = called("score", *arguments)
    assert result.code == 0 and "one_minus_aer: 0." in result.out


def test_subwords_are_put_together_in_outputs_and_links(called: Call, tmp_path: Path) -> None:
    data = phrases.prepare(tmp_path / "phrases", subwords=25)
    run = train(data, tmp_path / "trained", epochs=2)

    out = tmp_path / "p.tsv"
    assert called("predict", "--run", run, "--data", data, "--out", out).code == 0
    assert not any("@@" in row["predicted"] for row in table(out))
    assert called("analyze", "--run", run, "--data", data, "--out", out).code == 0

    sentences = load(Analysis, out).sentences
    assert sentences.source_words == [6] * 6 and all(len(links) == 6 for links in sentences.links)
    assert max(sentences.tokens) > 7
    assert all(source < 6 for links in sentences.links for source, _ in links)


@pytest.mark.parametrize("command", ["predict", "analyze", "attention"])
def test_data_of_other_vocabularies_is_refused(
    command: str, called: Call, trained: Path, tmp_path: Path
) -> None:
    other = phrases.prepare(tmp_path / "other", subwords=10)
    out = tmp_path / "out"

    result = called(command, "--run", trained, "--data", other, "--out", out)
    assert result.message()[0].endswith("is not the one that mono-postr-joint was trained with")
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "4"], "4 outputs of a beam of 3"),
        (["--n-best", "0"], "--n-best 0"),
        (["--sample", "--temperature", "0"], "--temperature 0.0"),
        (["--temperature", "1"], "--temperature and --seed are for sampling"),
        (["--sample", "--seed", "-1"], "--seed -1"),
        (["--length-penalty", "-1"], "`length_penalty`: input should be greater than or equal"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], message: str, called: Call, trained: Path
) -> None:
    result = called("predict", "--model", trained / "model", *options, typed="Das Haus.\n")
    assert result.message()[0].startswith(message)


def test_heat_maps_show_words(called: Call, trained: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "attention.json"
    arguments = ["--run", trained, "--data", data, "--count", 2, "--out", out]

    assert called("attention", *arguments).code == 0

    heat_map = json.loads(out.read_text(encoding="utf-8"))["rows"][0]
    assert heat_map["source"][0] == "das" and heat_map["target"][-2:] == [".", "</s>"]

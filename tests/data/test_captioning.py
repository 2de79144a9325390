"""Clips and captions from files to ids: forms of files, splits by clip, and what is refused."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from pam.data.archives import pack
from pam.data.dataset import Examples, Prepared
from pam.data.download import fetch, size_of
from pam.data.features import Frames, clips_in, read_array, spaced
from pam.data.prepare import prepare
from pam.data.registry import Dataset, check_local
from pam.runtime.errors import UserError
from pam.tasks.captioning.stages import read_captions

CAPTIONS = {f"clip{n}": [f"A dog barks {n} .", "a cat"] for n in range(6)}
UNITS = 3
SPLITS = {"train": 3, "dev": 1, "test": 2}


def frames(number: int) -> np.ndarray[Any, Any]:
    """Make the features of a clip, as many frames as its number and two."""
    return np.random.default_rng(number).normal(size=(number + 2, UNITS)).astype(np.float64)


def fetched(
    folder: Path, captions: Any = CAPTIONS, hdf5: bool = False, **changed: Any
) -> tuple[Dataset, Path]:
    """Make a data set of a folder of arrays, or of an HDF5 file, and fetch its files.

    Returns it with the folder of fetched files. `changed` has other arrays, or None for a clip that
    has none.
    """
    user_folder = folder / "own"
    user_folder.mkdir()
    (user_folder / "captions.json").write_text(json.dumps(captions), encoding="utf-8")

    arrays = {f"clip{n}": frames(n) for n in range(6)} | changed
    if hdf5:
        features = user_folder / "features.h5"
        with h5py.File(features, "w") as file:
            for clip, array in arrays.items():
                file[clip] = array
    else:
        features = user_folder / "features"
        features.mkdir()
        for clip, array in arrays.items():
            if array is not None:
                np.save(features / f"{clip}.npy", array)

    # A folder is fetched as an archive.
    features_name = "features.h5" if hdf5 else "features.tar"
    files = {"captions.json": user_folder / "captions.json", features_name: features}
    dataset = Dataset(
        task="captioning",
        files={name: {"path": str(path)} for name, path in files.items()},
        splits={"all": {"captions": "captions.json", "features": features_name}},
        format={"clips": SPLITS, "lowercase": True},
    )
    fetch("mine", dataset, folder / "raw")

    return dataset, folder / "raw"


def ready(folder: Path, layout: dict[str, Any] | None = None, **options: Any) -> Prepared:
    dataset, raw = fetched(folder, **options)
    prepare("mine", dataset.with_format(layout or {}), raw, folder / "out")
    return Prepared(folder / "out")


def test_training_has_a_row_for_each_caption_and_other_splits_one_for_each_clip(
    tmp_path: Path,
) -> None:
    data = ready(tmp_path)
    assert data.rows("train")[:3] == [
        ("clip0", "a dog barks 0 ."),
        ("clip0", "a cat"),
        ("clip1", "a dog barks 1 ."),
    ]
    assert list(data.rows("dev")) == [("clip3", "a dog barks 3 .")]
    assert [clip for clip, _ in data.rows("test")] == ["clip4", "clip5"]

    references = (data.folder / "test.target.txt").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in references] == [
        ["a dog barks 4 .", "a cat"],
        ["a dog barks 5 .", "a cat"],
    ]


def test_a_batch_has_the_frames_of_its_clips_and_zeros_behind_them(tmp_path: Path) -> None:
    data = ready(tmp_path)
    examples = Examples(data.split("train"), "symbols")
    batch = examples.batch(np.arange(6))

    assert batch.source.shape == (6, 4, UNITS)

    for row, number, length in zip(batch.source, batch.rows, batch.lengths, strict=True):
        clip = torch.tensor(frames(int(number) // 2), dtype=torch.float32)
        assert length == len(clip)
        assert torch.equal(row[:length], clip)
        assert not row[length:].any()

    assert examples.cut(2, None).batch(np.arange(2)).source.shape[1] == 2


def test_a_source_is_the_numbers_of_its_frames_with_their_vectors(tmp_path: Path) -> None:
    source = ready(tmp_path).codec.source_symbols(["clip2"])
    assert isinstance(source, Frames)
    assert source == ["1", "2", "3", "4"]
    np.testing.assert_allclose(source.vectors, frames(2), rtol=1e-6)


@pytest.mark.parametrize(
    "written",
    [
        [{"id": clip, "caption": texts} for clip, texts in CAPTIONS.items()],
        {
            "videos": [{"video_id": clip} for clip in CAPTIONS],
            "sentences": [
                {"video_id": c, "caption": text}
                for c, texts in reversed(CAPTIONS.items())
                for text in texts
            ],
        },
    ],
    ids=["list", "MSR-VTT"],
)
def test_other_forms_of_captions_say_the_same(tmp_path: Path, written: Any) -> None:
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    assert list(read_captions(path).items()) == list(CAPTIONS.items())


def test_hdf5_holds_what_a_folder_of_arrays_does(tmp_path: Path) -> None:
    for name, hdf5 in (("folder", False), ("file", True)):
        (tmp_path / name).mkdir()
        ready(tmp_path / name, hdf5=hdf5)
    for file in ("features.npy", "train.safetensors", "source.vocab"):
        from_folder = (tmp_path / "folder" / "out" / file).read_bytes()
        from_file = (tmp_path / "file" / "out" / file).read_bytes()
        assert from_folder == from_file


def test_companions_of_arrays_are_no_clips_and_two_arrays_of_a_clip_are_refused(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "features.tar"
    folder = tmp_path / "features"
    for name in ("clip0.npy", "part/clip1.npy", ".hidden.npy"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, frames(1))
    (folder / "._clip0.npy").write_bytes(b"what macOS notes of a file")

    with open(archive, "wb") as file:
        pack(folder, file)
    with clips_in(archive) as (names, read):
        assert names == [".hidden", "clip0", "clip1"]
        assert read("clip1").shape == (3, UNITS)

    np.save(folder / "part/clip0.npy", frames(2))
    with open(archive, "wb") as file:
        pack(folder, file)
    with (
        pytest.raises(UserError, match=r"two arrays for the clip `clip0`: clip0.npy and part/"),
        clips_in(archive),
    ):
        pass


def test_each_clip_of_a_folder_is_an_input_of_the_workflow(tmp_path: Path) -> None:
    dataset, _ = fetched(tmp_path)
    files = check_local("mine", dataset)
    folder = Path(str(dataset.files["features.tar"].path))

    assert folder.is_dir() and set(folder.iterdir()) < set(files)

    size = sum(file.stat().st_size for file in folder.iterdir())
    assert folder not in files and size_of(folder) == size

    # Snakemake would take the braces for a wildcard.
    (folder / "a{b}.npy").touch()
    with pytest.raises(UserError, match="a name with braces") as caught:
        check_local("mine", dataset)
    assert caught.value.file == str(folder / "a{b}.npy")

    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(UserError, match="the folder is empty"):
        check_local("mine", dataset)


def test_what_captions_and_features_are_is_told_by_their_content(tmp_path: Path) -> None:
    _, raw = fetched(tmp_path, hdf5=True)
    (raw / "features.h5").rename(raw / "features")
    with clips_in(raw / "features") as (names, read):
        assert names == sorted(CAPTIONS) and read("clip0").shape == (2, UNITS)
    text = "\ufeff" + (raw / "captions.json").read_text(encoding="utf-8")
    (raw / "captions.json").write_bytes(gzip.compress(text.encode()))

    assert read_captions(raw / "captions.json") == CAPTIONS

    (raw / "captions.json").write_text('{"clip0":\n ["a",]}')
    with pytest.raises(UserError, match="this is not valid JSON") as caught:
        read_captions(raw / "captions.json")
    assert caught.value.line == 2


def test_a_folder_is_packed_to_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    packed = []
    for name in "ab":
        (tmp_path / name).mkdir()
        fetched(tmp_path / name)
        packed.append((tmp_path / name / "raw/features.tar").read_bytes())

    assert packed[0] == packed[1]

    with tarfile.open(tmp_path / "a/raw/features.tar") as tar:
        assert tar.getnames() == [f"clip{n}.npy" for n in range(6)]


def test_frames_are_taken_at_equal_distances_from_the_first_ones() -> None:
    vectors = np.arange(10, dtype=np.float32)[:, None]
    assert spaced(vectors, 7, 3).ravel().tolist() == [0, 3, 6]
    assert spaced(vectors, None, 20).ravel().tolist() == list(range(10))


def test_a_vocabulary_of_frames_is_that_of_the_longest_clip_of_training(tmp_path: Path) -> None:
    data = ready(tmp_path, {"frames": {"spaced": 3}})
    assert data.source.symbols == ("1", "2", "3")
    assert data.summary["units"] == UNITS


class Pickled:
    """An object in an array, whose code reading it would run."""


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no features": ({"clip2": None}, "the clip `clip2` has captions but no features"),
    "no captions": ({"clip6": frames(1)}, "the clip `clip6` has features but no captions"),
    "unequal width": ({"clip1": np.ones((2, 5))}, "frames of 5 units, where others have 3"),
    "not a number": (
        {"clip1": np.array([[1.0, 2, 3], [1, np.nan, 3]])},
        "frame 2 has numbers that are not finite",
    ),
    "too large": ({"clip1": np.full((2, 3), 1e300)}, "frame 1 has numbers that are not finite"),
    "pickled": ({"clip1": np.array([Pickled()], dtype=object)}, "this is not an array of numbers"),
    "text": ({"clip1": np.array([["a", "b", "c"]])}, "this is not an array of numbers"),
    "one frame alone": ({"clip1": np.ones(3)}, "an array of 3 is not a clip of frames x units"),
    "no frames": ({"clip1": np.ones((0, 3))}, "an array of 0 x 3 is not a clip of frames x units"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_features_are_refused_by_the_name_of_their_clip(tmp_path: Path, name: str) -> None:
    changed, message = FAULTS[name]
    with pytest.raises(UserError) as caught:
        ready(tmp_path, **changed)
    assert message in str(caught.value)
    assert next(iter(changed)) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:60],
        lambda content: content[:-8],
        lambda content: content.replace(b"(2, 3)", b"(2, 3" + b"(", 1),
        lambda content: content.replace(b"'shape': (2, 3)", b"'shape': (9**99)", 1),
        lambda content: content.replace(b"(2, 3), }", b"(2, 3), " + b"\0", 1),
        lambda content: content.replace(b"(2, 3), }    ", b"(10**9, 3), }", 1),
    ],
    ids=["header cut", "array cut", "brackets", "no shape", "a zero", "more than there is"],
)
def test_a_damaged_array_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    np.save(tmp_path / "clip.npy", frames(0))
    content = (tmp_path / "clip.npy").read_bytes()
    assert spoil(content) != content

    (tmp_path / "clip.npy").write_bytes(spoil(content))
    with pytest.raises(UserError, match="this is not an array of numbers"):
        read_array(tmp_path / "clip.npy")


def test_an_array_that_hdf5_does_not_hold_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "clips.h5", "w") as file:
        file.create_dataset("clip0", shape=(10**9, 10**6), dtype=np.float32)
    with (
        clips_in(tmp_path / "clips.h5") as (names, read),
        pytest.raises(UserError, match="clip0: this array is dam"),
    ):
        read(names[0])


def test_prepared_frames_that_are_missing_are_told_of_by_their_file(tmp_path: Path) -> None:
    folder = ready(tmp_path).folder
    (folder / "features.npy").unlink()
    with pytest.raises(UserError) as caught:
        Prepared(folder).split("train")
    assert caught.value.file == str(folder / "features.npy")


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        ([], "these are not captions of clips"),
        ({"clip0": [1]}, "record 1 has no clip with captions"),
        ([{"caption": "a dog"}], "record 1 has no clip with captions"),
        (CAPTIONS | {"clip1": ["a dog", " "]}, "caption 2 of the clip `clip1` is empty"),
        (CAPTIONS | {"clip1": []}, "the clip `clip1` has features but no captions"),
        (CAPTIONS | {"a\tb": ["a dog"]}, "has a tab or a line end in its name"),
    ],
)
def test_faulty_captions_are_refused(tmp_path: Path, captions: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        ready(tmp_path, captions=captions)
    assert message in str(caught.value)
    assert "captions.json" in str(caught.value.file)


def test_what_does_not_match_can_be_left_out_and_is_counted(tmp_path: Path) -> None:
    layout = {"unmatched": "drop", "clips": SPLITS | {"test": 1}}
    data = ready(tmp_path, layout, captions=CAPTIONS | {"clip9": ["a bird"]}, clip2=None)
    assert [clip for clip, _ in data.rows("test")] == ["clip5"]
    assert data.summary["stages"][0]["dropped"] == {"clips without features": 2}


def test_too_few_clips_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"6 clips are too few for 30 \+ 1 \+ 2"):
        ready(tmp_path, {"clips": SPLITS | {"train": 30}})


def test_clips_that_are_in_two_splits_are_told(tmp_path: Path) -> None:
    data = ready(tmp_path, clip5=frames(0))
    (warning,) = data.summary["warnings"]
    assert warning.startswith("train and test share clips, by their frames: 1, ")
    assert data.summary["pairs_in_train_too"] == {"dev": 0, "test": 1}


def test_damaged_features_are_found(tmp_path: Path) -> None:
    data = ready(tmp_path)
    path = data.folder / "features.npy"
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")

    with pytest.raises(UserError, match="this file has changed since it was prepared"):
        Prepared(data.folder).split("train")


def test_half_a_character_in_a_caption_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text('{"clip0":\n ["a \\ud83d dog"]}', encoding="utf-8")
    with pytest.raises(UserError, match=r"U\+D83D") as caught:
        read_captions(path)
    assert caught.value.line == 2

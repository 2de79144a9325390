"""Data comes over https, is held to its hash and bounded in size, wherever that can be known."""

from __future__ import annotations

import pytest

from pam.data.download import LARGEST
from pam.data.registry import Dataset, load_registries
from tests.workflow.checkouts import ROOT

DATASETS = load_registries([ROOT / "config/datasets.yaml"])

NO_HASH = {
    "wat17-ja-en": {"train/train-1.txt", "dev/dev.txt", "test/test.txt"},
    "iwslt15-en-vi": {"train.en", "train.vi"},
}
"""Files that nobody could look at: licensed ones, which no address gives, and two whose sizes are
published. They are held to what came first."""

NO_SIZE = {"wmt16-ro-en", "cnndm-see", "duc2004", "youtube2text"}
"""Data sets of whose files not even the sizes are published, or whose files are the user's own: the
general bound is theirs.
"""


@pytest.mark.parametrize("name", DATASETS)
def test_every_address_is_https_and_every_file_is_known_by_its_hash_or_its_size(name: str) -> None:
    dataset: Dataset = DATASETS[name]
    for key, file in dataset.files.items():
        assert all(url.startswith("https://") for url in file.urls), key
        assert (file.bytes or 0) < LARGEST, key
        if name in NO_SIZE:
            assert not (file.sha256 or file.md5 or file.bytes), (
                f"{key} is known, and can be held to it"
            )
        elif key in NO_HASH.get(name, ()):
            assert file.bytes is not None or not file.urls, key
        else:
            assert file.sha256 or file.md5, key
            assert file.hash_from, f"{key}: how is the hash known?"

"""What a finished training leaves, kept beside its state so that nobody has to train it twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pam.errors import UserError
from pam.files import read_json, sha256_of, storage_error, write_aside, write_json

MARK = "finished.json"


class Results:
    """The results of one training: written here as a whole, then put where they are wanted.

    A workflow that was killed while its training lived on deletes what that training wrote, and
    starts it once more. The second finds here what the first has made.

    Args:
        folder: where they are kept, which they have for themselves.
        key: what the training is: configuration, data and code.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key

    def whole(self) -> bool:
        """Whether the results of this training, and of no other, are here undamaged."""
        try:
            return bool(read_json(self.folder / MARK) == self._content())
        except UserError:
            return False

    def clear(self) -> None:
        """Removes what an unfinished training, or another one, has left."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def complete(self) -> None:
        """Marks what is in the folder as whole."""
        write_json(self.folder / MARK, self._content())

    def publish(self, out: Path) -> None:
        """Puts the results into `out`, each as a whole, as new as if just made.

        Raises:
            UserError: the disk is full, or the folder may not be written to.
        """
        try:
            for name in self._names():
                _place(self.folder / name, out / name)
        except OSError as error:
            raise storage_error(error, out) from error

    def _names(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in files if path.name != MARK)

    def _content(self) -> dict[str, Any]:
        digests = {name: sha256_of(self.folder / name) for name in self._names()}
        return {"key": self.key, "files": digests}


def _place(kept: Path, target: Path) -> None:
    """One content under two names, which takes no room; a copy where file systems differ."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (target.exists() and target.samefile(kept)):
        with write_aside(target) as temporary:
            temporary.unlink()
            try:
                os.link(kept, temporary)
            except OSError:
                shutil.copyfile(kept, temporary)
    # Results older than the data that they were made from would be made again.
    os.utime(target)

"""The device of a training: the one that is named, or one for each process (without CUDA)."""

from __future__ import annotations

import pytest
import torch

from pam.runtime.devices import choose_device
from pam.runtime.errors import UserError
from pam.training.distributed import joined


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """Two CUDA devices that are not there, of which the first is current; the list has the next."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


@pytest.mark.parametrize("device", ["cuda:1", torch.device("cuda:1")])
@pytest.mark.parametrize("local_rank", [None, 0])
def test_a_device_with_an_index_stays_what_it_is(
    device: str | torch.device, local_rank: int | None, current: list[torch.device]
) -> None:
    assert choose_device(device, local_rank) == torch.device("cuda:1")
    assert current == [torch.device("cuda:1")]


def test_a_process_by_itself_trains_on_the_device_that_is_named(
    current: list[torch.device],
) -> None:
    with joined(torch.device("cuda:1")) as group:
        assert group.device == torch.device("cuda:1")
    with joined("cuda") as group:
        assert group.device == torch.device("cuda:0")
    assert current == [torch.device("cuda:1"), torch.device("cuda:0")]


def test_processes_of_a_training_have_a_device_each(current: list[torch.device]) -> None:
    devices = [choose_device("auto", local_rank) for local_rank in range(2)]
    assert devices == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(UserError, match="no CUDA device for process 3"):
        choose_device("cuda", 2)
    assert choose_device("cpu", 2) == torch.device("cpu")

"""Use of datasets through torch's DataLoader."""

from __future__ import annotations

import math
import os
import sys
from multiprocessing.context import get_spawning_popen
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import DistributedSampler as TorchDistributedSampler
from torch.utils.data import IterableDataset as TorchIterableDataset
from torch.utils.data import get_worker_info

from .dataset import Dataset
from .frameworks import torch_converter
from .ranks import rank_and_world


class MapDataset(TorchDataset):
    """Records by number, for a DataLoader with a sampler such as DistributedSampler.

    The dataset is sf.read, optionally followed by parse, decoders, map and select. A batch of
    numbers is read at once. It can be pickled; workers may be forked or spawned."""

    def __init__(self, dataset: Dataset, transform: Optional[Callable[[Any], Any]] = None):
        self.dataset = dataset
        self.transform = transform
        len(dataset)  # raise TypeError now, not in a worker

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> List[Any]:
        convert = torch_converter()
        elements = [convert(element) for element in self.dataset[list(numbers)]]
        return [self.transform(e) for e in elements] if self.transform else elements


class DistributedSampler(TorchDistributedSampler):
    """A sampler for a MapDataset that yields the same numbers in the same order as torch's
    DistributedSampler, and is used in the same way (set_epoch). It needs no process group: it
    finds rank and world as shard() does.

    state_dict() says where an epoch is, and any number of ranks can resume from it: together
    they yield the remaining numbers. StatefulDataLoader calls it; a plain DataLoader with
    workers asks for numbers ahead of what it delivers."""

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None,
                 rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False):
        found = rank_and_world()
        super().__init__(dataset, found[1] if num_replicas is None else num_replicas,
                         found[0] if rank is None else rank, shuffle, seed, drop_last)
        self._begin = 0  # start of the next run, in the order of all ranks
        self._at = 0

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self._begin = self._at = 0
        super().set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        order: List[int] = list(range(len(self.dataset)))
        if self.shuffle:
            random = torch.Generator()
            random.manual_seed(self.seed + self.epoch)
            order = torch.randperm(len(order), generator=random).tolist()
        rest = order[self._begin:]
        missing = -len(rest) % self.num_replicas
        if self.drop_last:
            rest = rest[:len(rest) // self.num_replicas * self.num_replicas]
        elif missing:
            rest += (order * math.ceil(missing / len(order)))[:missing]
        self._at, self._begin = self._begin, 0
        for number in rest[self.rank::self.num_replicas]:
            self._at += self.num_replicas
            yield number

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "position": self._at}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Loads the state of any rank after the same number of steps."""
        self.epoch = int(state["epoch"])
        self._begin = self._at = int(state["position"])


# Maximum number of workers of a loader, each of which has its own epoch.
_MOST_WORKERS = 1024


def _shared_out_by_accelerate() -> bool:
    """Whether one of Hugging Face Accelerate's loaders, as made by its prepare(), requests the
    elements: it shares out the elements of a dataset among the ranks itself. It does not tell the
    dataset, so this looks for its frames in the call stack; a forked worker has those of its
    parent."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            # With one process it shares nothing out; ranks of another launcher are unknown to it.
            return sys.modules["accelerate"].PartialState().num_processes > 1
        frame = frame.f_back
    return False


class IterableDataset(TorchIterableDataset):
    """The elements of a chain, shared out among ranks and, within each rank, among workers.
    Nothing comes twice, and nothing is left out except as `end` of sf.read says. The chain
    must not contain shard(). Steps that count elements (take, skip, enumerate) count those of
    all parts. A loader that Accelerate prepares shares out among the ranks itself, so it gets
    the elements of all ranks.

    Use DataLoader(batch_size=None) for a chain that batches. Rank and world are by default
    found when iteration begins: see rank_and_world. Each run takes the next epoch, in workers
    too, unless set_epoch says otherwise. state_dict and load_state_dict are those of the
    running iterator (of one worker); StatefulDataLoader calls them."""

    def __init__(self, dataset: Dataset, rank: Optional[int] = None, world: Optional[int] = None):
        if (rank is None) != (world is None):
            raise ValueError("IterableDataset: give rank and world, or neither")
        self.dataset = dataset
        self._rank_and_world = None if rank is None or world is None else (rank, world)
        # In memory shared by the loader's processes: a worker may be a new process in each epoch.
        self._epochs = torch.zeros(_MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._iterator: Any = None
        self._state: Optional[Dict[str, Any]] = None
        self._pid = 0
        self._shared_out = False  # set in a worker that Accelerate's loader spawned
        self._part(0, 1)  # a chain with shard() raises now

    @property
    def rank(self) -> int:
        return self._find_rank_and_world()[0]

    @property
    def world(self) -> int:
        return self._find_rank_and_world()[1]

    def _find_rank_and_world(self) -> Tuple[int, int]:
        if self._rank_and_world is not None:
            return self._rank_and_world
        if self._shared_out or _shared_out_by_accelerate():
            return 0, 1
        return rank_and_world()

    def _part(self, rank: int, world: int) -> Dataset:
        """Returns the part of rank `rank` of `world`, selected as close to the sources as
        possible."""
        return self.dataset._then("shard_sources", rank, world, text=f"shard_sources({rank}, {world})")

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next run."""
        self._epochs.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info else (1, 0)
        part = self._part(self.rank * workers + worker, self.world * workers)
        part.set_epoch(int(self._epochs[worker]))
        self._iterator = iter(part.torch())
        self._pid = os.getpid()
        if self._state is not None:
            self._iterator.load_state_dict(self._state)
            self._state = None
        self._epochs[worker] = self._iterator.epoch() + 1
        return self._iterator

    def __len__(self) -> int:
        """Returns the number of elements of this rank, over all its workers."""
        info = get_worker_info()
        workers = info.num_workers if info else 1
        return sum(len(self._part(self.rank * workers + w, self.world * workers))
                   for w in range(workers))

    def state_dict(self) -> Dict[str, Any]:
        if self._iterator is None or self._pid != os.getpid():
            return {}
        return self._iterator.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._state = state or None

    def __getstate__(self) -> Dict[str, Any]:
        shared_out = self._shared_out or (get_spawning_popen() is not None and
                                          _shared_out_by_accelerate())
        return {**self.__dict__, "_iterator": None, "_shared_out": shared_out}


__all__ = ["DistributedSampler", "IterableDataset", "MapDataset", "torch"]

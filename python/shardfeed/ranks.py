"""Which part of a job this process is."""

from __future__ import annotations

import os
import sys
from typing import Tuple


def rank_and_world() -> Tuple[int, int]:
    """(rank, number of ranks): of torch.distributed where it is initialised, else as torchrun sets
    RANK and WORLD_SIZE, else of JAX's processes where JAX is in use, else (0, 1)."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "process_count") and jax.process_count() > 1:
        return jax.process_index(), jax.process_count()
    return 0, 1

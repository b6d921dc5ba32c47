"""The rank of this process and the number of ranks."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, List, Optional, Set, Tuple

_MOST_RANKS = (1 << 32) - 1

# Variables with which launchers tell a process its rank and the number of ranks.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),                              # torchrun, Lightning, Accelerate, DeepSpeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),    # Open MPI
    ("PMI_RANK", "PMI_SIZE"),                            # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),      # MVAPICH
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),            # srun, but not sbatch's own script
)


class WrongVariables(ValueError):
    """A launcher's variables are not a rank below its number of ranks."""


def rank_and_world() -> Tuple[int, int]:
    """Returns (rank, number of ranks) of this process, from the first of these that says it:
    torch.distributed, if it is initialized; a Ray Train worker's context; JAX's processes,
    if jax.distributed is initialized; the variables of torchrun, Open MPI, MPICH, MVAPICH
    and srun; TF_CONFIG. Otherwise (0, 1).

    ValueError: a launcher's variables are not a rank below its number of ranks. A warning tells of
    variables that name more ranks than one, where one was found, and of a rank without a number of ranks."""
    for find in (_of_torch, _of_ray, _of_jax, _of_variables, _of_tf_config):
        found = find()
        if found is not None:
            warn_if_alone(*found)
            return found
    warn_if_alone(0, 1)
    return 0, 1


def grouped(rank: int, world: int, group: int) -> Tuple[int, int]:
    """The rank and the number of ranks for data that `group` consecutive ranks share. A rank that is alone has all."""
    if world == 1:
        return rank, world
    if world % group != 0:
        raise ValueError(f"shard: {world} ranks are not groups of {group}")
    return rank // group, world // group


def part_of(rank: int, world: int, group: int) -> Tuple[int, int]:
    """The same for a rank that the user gives."""
    if rank >= world:
        raise ValueError(f"shard: rank {rank} of {world}: ranks are numbered from 0")
    warn_if_alone(rank, world)
    return grouped(rank, world, group)


# Variables that tell only the number of ranks, or only the rank.
_ONLY_WORLDS = ("JAX_NUM_PROCESSES", "LOCAL_WORLD_SIZE")
_ONLY_RANKS = ("JAX_PROCESS_ID", "PMIX_RANK", "LOCAL_RANK")


def _names_more() -> str:
    """What in the environment names more ranks than one; empty if nothing does."""
    for of_rank, of_world in _VARIABLES:
        text = os.environ.get(of_world, "")
        if text.isdecimal() and int(text) > 1:
            return f"{of_world}={text}" + ("" if of_rank in os.environ else f", without {of_rank}")
        if of_rank in os.environ and not text and os.environ[of_rank] != "0":
            return f"{of_rank}={os.environ[of_rank]}, without {of_world}"
    for names, least in ((_ONLY_WORLDS, 2), (_ONLY_RANKS, 1)):
        for name in names:
            text = os.environ.get(name, "")
            if text.isdecimal() and int(text) >= least:
                return f"{name}={text}"
    workers = _workers_of_tf_config()
    return f"TF_CONFIG with {workers} workers" if workers > 1 else ""


def _workers_of_tf_config() -> int:
    """How many tasks that train TF_CONFIG names; 0 for a task of another kind, or if it cannot be read."""
    import json
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        if config.get("task", {}).get("type") in ("ps", "evaluator"):
            return 0
        return sum(len(config.get("cluster", {}).get(kind, ())) for kind in ("chief", "master", "worker"))
    except (ValueError, TypeError, AttributeError):
        return 0


_warned: Set[str] = set()


def warn_if_alone(rank: int, world: int) -> None:
    """Warns, once, if this process takes itself for the only rank and its environment says otherwise."""
    if (rank, world) != (0, 1):
        return
    why = _names_more()
    if why and why not in _warned:
        _warned.add(why)
        warnings.warn(f"this process reads as the only rank, but its environment has {why}; if there are more, each "
                      "reads everything: pass rank and world to shard()", stacklevel=3)


def _of_torch() -> Optional[Tuple[int, int]]:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _of_ray() -> Optional[Tuple[int, int]]:
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        rank, world = context.get_world_rank(), context.get_world_size()
    except Exception:  # outside a worker it raises or returns None, depending on the version
        return None
    return None if rank is None or world is None else (rank, world)


def _of_jax() -> Optional[Tuple[int, int]]:
    jax = sys.modules.get("jax")
    # Asking JAX for its processes earlier would initialize its devices.
    initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if initialized is None or not initialized():
        return None
    return jax.process_index(), jax.process_count()  # type: ignore[union-attr]


def _of_variables() -> Optional[Tuple[int, int]]:
    for rank, world in _VARIABLES:
        if rank in os.environ and world in os.environ:
            return _checked(f"{rank}={os.environ[rank]}, {world}={os.environ[world]}",
                            os.environ[rank], os.environ[world])
    return None


def _of_tf_config() -> Optional[Tuple[int, int]]:
    """Counts chiefs, then workers, as TensorFlow does; other tasks (ps, evaluator) do not count."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    import json
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        tasks = [(kind, i) for kind in ("chief", "worker") for i in _numbers(cluster.get(kind, ()))]
        of_this = (task.get("type"), _index(task.get("index", 0)))
    except (ValueError, TypeError, AttributeError) as e:
        raise WrongVariables(f"TF_CONFIG={text!r} is not in TensorFlow's format: {e}") from None
    if of_this in tasks:
        return tasks.index(of_this), len(tasks)
    if of_this[0] in ("chief", "worker"):
        raise WrongVariables(f"TF_CONFIG={text!r} has no {of_this[0]} of index {of_this[1]}")
    return None


def _numbers(tasks: Any) -> List[int]:
    """The indexes of the tasks of a kind, which are a list of addresses, or a dict of them by index."""
    if isinstance(tasks, dict):
        return sorted(_index(number) for number in tasks)
    if isinstance(tasks, str):
        raise ValueError(f"expected a list of addresses, not {tasks!r}")
    return list(range(len(tasks)))


def _index(number: Any) -> int:
    if isinstance(number, str) and number.isdecimal():
        return int(number)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    raise ValueError(f"the index of a task must be an integer, not {number!r}")


def _checked(said: str, rank: str, world: str) -> Tuple[int, int]:
    try:
        found = int(rank), int(world)
    except ValueError:
        raise WrongVariables(f"{said}: expected integers; set them, or pass rank and world") from None
    if not 0 <= found[0] < found[1]:
        raise WrongVariables(f"{said}: the rank must be below the number of ranks; set them, or pass rank "
                             "and world")
    if found[1] > _MOST_RANKS:
        raise WrongVariables(f"{said}: there can be at most {_MOST_RANKS} ranks")
    return found

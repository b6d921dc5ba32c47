"""JAX on several processes with two devices each: each process reads its own part, and the parts
together are global arrays.

    jax_processes.py FOLDER DATASET COORDINATOR PROCESSES PROCESS
"""

import common
import jax
import numpy as np
import shardfeed as sf
from jax.sharding import Mesh, NamedSharding, PartitionSpec

EPOCHS = 3
BATCH = 8


def main():
    folder, spec, (coordinator, processes, process) = common.arguments()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(coordinator, int(processes), int(process))
    rows = NamedSharding(Mesh(np.array(jax.devices()), "rows"), PartitionSpec("rows"))
    ds = (sf.read(spec, batch=BATCH).shuffle(seed=1).shard()  # by jax.process_index()
          .parse(common.COLUMNS).batch(BATCH))
    total = jax.jit(lambda n: n.sum(), out_shardings=NamedSharding(rows.mesh, PartitionSpec()))
    epochs, sums, arrays = [], [], True
    for _ in range(EPOCHS):
        mine, sum_of_all = [], 0
        for batch in ds.jax(sharding=rows):
            arrays = arrays and all(isinstance(value, jax.Array) for value in batch.values())
            assert batch["n"].shape == (BATCH * int(processes),)
            sum_of_all += int(total(batch["n"]))
            parts = sorted(batch["n"].addressable_shards, key=lambda part: part.index[0].start)
            assert len(parts) == 2
            mine.append([int(n) for part in parts for n in np.asarray(part.data)])
        epochs.append(mine)
        sums.append(sum_of_all)
    common.tell(folder, jax.process_index(), epochs=epochs, sums=sums, arrays=arrays)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()

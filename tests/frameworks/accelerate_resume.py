"""Accelerate's checkpoints: save_state and load_state, which include the loader's state.

    accelerate_resume.py FOLDER DATASET STOP      STOP batches; then save_state
    accelerate_resume.py FOLDER DATASET rest      load_state, then the rest of the epoch
"""

import accelerate
import common
import shardfeed as sf
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


def main():
    folder, spec, (stop,) = common.arguments()
    accelerator = accelerate.Accelerator(cpu=True)
    chain = common.parsed(spec, batch=8).batch(8)
    # The loader is not prepared: each rank reads its own part, and a state is valid for all of
    # them.
    loader = StatefulDataLoader(sf.torch.IterableDataset(chain), batch_size=None)
    accelerator.register_for_checkpointing(loader)
    model = accelerator.prepare(torch.nn.Linear(4, 1))
    if stop == "rest":
        accelerator.load_state(folder / "state")
        found = common.numbers(loader)
    else:
        it = iter(loader)
        found = common.numbers(next(it) for _ in range(int(stop)))
        accelerator.save_state(folder / "state")
    assert next(model.parameters()) is not None
    common.tell(folder, accelerator.process_index, epochs=[found])
    common.end_training(accelerator)


if __name__ == "__main__":
    main()

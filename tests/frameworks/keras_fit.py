"""Keras' fit over sf.tf.dataset. The model records its inputs.

    keras_fit.py FOLDER DATASET STEPS      STEPS of each epoch; 0 for all
"""

import common
import keras
import shardfeed as sf
import tensorflow as tf

EPOCHS = 3
BATCH = 32


class Model(keras.Sequential):
    """One layer, which records the records of each batch: the last column of its inputs."""

    def __init__(self):
        super().__init__([keras.Input([5]), keras.layers.Dense(1)])
        self.trained, self.tested = [], []

    def train_step(self, data):
        self.write_down(data, self.trained)
        return super().train_step(data)

    def test_step(self, data):
        self.write_down(data, self.tested)
        return super().test_step(data)

    @staticmethod
    def write_down(data, to):
        def keep(numbers):
            to.append([int(n) for n in numbers.numpy()])
        tf.py_function(keep, [data[0][:, 4]], [])


def pairs(batch):
    import numpy as np
    return np.concatenate([batch["x"], batch["n"][:, None].astype(np.float32)], 1), batch["y"]


class Epochs(keras.callbacks.Callback):
    """The records of training and testing in each epoch."""

    def __init__(self):
        super().__init__()
        self.trained, self.tested = [], []

    def on_epoch_end(self, epoch, logs=None):
        self.trained.append(list(self.model.trained))
        self.tested.append(list(self.model.tested))
        self.model.trained.clear()
        self.model.tested.clear()


def main():
    folder, spec, (steps,) = common.arguments()
    steps = int(steps)
    # The learning rate is 0, because the inputs include large numbers.
    ds = common.parsed(spec).batch(BATCH).map(pairs, batched=True)
    validation = (sf.read(spec, records="0-99").parse(common.COLUMNS).batch(BATCH)
                  .map(pairs, batched=True))
    if steps:
        ds = ds.repeat()
    model = Model()
    model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=True)
    epochs = Epochs()
    model.fit(sf.tf.dataset(ds), epochs=EPOCHS, steps_per_epoch=steps or None, verbose=0,
              validation_data=sf.tf.dataset(validation), callbacks=[epochs])
    common.tell(folder, epochs=epochs.trained, tested=epochs.tested)


if __name__ == "__main__":
    main()

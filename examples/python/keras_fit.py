"""Trains with Keras's fit on an sf.tf.dataset.

    python examples/python/keras_fit.py
"""

import tempfile

import numpy as np
import shardfeed as sf
import keras


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for _ in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum())})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(f"{folder}/train@4")
        ds = (sf.read(f"{folder}/train@4")
              .shuffle(seed=1)
              .parse({"x": sf.fixed(4), "y": sf.float32})
              .batch(32)
              .map(lambda batch: (batch["x"], batch["y"]), batched=True))
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        losses = model.fit(sf.tf.dataset(ds), epochs=2, verbose=0).history["loss"]
        print(f"{2 * len(ds)} steps; error: {losses[0]:.4f} at first, {losses[-1]:.4f} after")


if __name__ == "__main__":
    main()

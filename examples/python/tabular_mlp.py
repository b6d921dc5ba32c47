"""Trains a small network on a table with NumPy: converts, shuffles, parses, makes batches, trains.

    python examples/python/tabular_mlp.py [STEPS]
"""

import pathlib
import sys
import tempfile

import numpy as np
import shardfeed as sf


def write_table(path: pathlib.Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,c,d,y", comments="",
               fmt="%.6f")


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "table.csv"
        write_table(table, 4000)
        sf.convert("csv", table, f"{folder}/table@4", no_sync=True)
        ds = (sf.read(f"{folder}/table@4")
              .shuffle(seed=1)
              .repeat()
              .parse({name: sf.float32 for name in "abcdy"})
              .batch(64)
              .map(lambda b: (np.stack([b[n] for n in "abcd"], axis=1), b["y"]), batched=True))
        rng = np.random.default_rng(1)
        w1, b1 = rng.normal(size=(4, 32)) / 2, np.zeros(32)
        w2, b2 = rng.normal(size=32) / 6, 0.0
        losses = []
        for x, y in ds.take(steps):
            hidden = np.maximum(x @ w1 + b1, 0)
            error = hidden @ w2 + b2 - y
            losses.append(float(np.mean(error ** 2)))
            grad = 0.1 * error / len(y)
            back = np.outer(grad, w2) * (hidden > 0)
            w2, b2 = w2 - hidden.T @ grad, b2 - grad.sum()
            w1, b1 = w1 - x.T @ back, b1 - back.sum(axis=0)
        print(f"mean squared error: {np.mean(losses[:10]):.3f} at first, "
              f"{np.mean(losses[-10:]):.3f} after {steps} steps")


if __name__ == "__main__":
    main()

"""Normalizes a table with Dask on several processes and writes it as shards. It takes Dask and pyarrow
(pip install 'shardfeed[dask]').

    python examples/python/dask_sensors.py [OUT@N]
"""

import sys
import tempfile

import dask.dataframe as dd
import numpy as np
import pandas as pd
import shardfeed as sf
import shardfeed.dask
from distributed import Client, LocalCluster


def measured(sensor: int) -> pd.DataFrame:
    rng = np.random.default_rng(sensor)
    return pd.DataFrame({"sensor": np.full(1000, sensor), "value": rng.normal(20 + sensor, 2, 1000)})


def main(spec: str) -> None:
    shards = int(spec.rpartition("@")[2])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        frame = dd.from_map(measured, range(shards))  # a partition becomes a shard
        mean, deviation = dd.compute(frame["value"].mean(), frame["value"].std())
        # The features of Example have float32; declaring it says that the rounding is meant.
        frame["value"] = ((frame["value"] - mean) / deviation).astype("float32")
        report = shardfeed.dask.write(frame, spec)
        print(f"{report['records']} records in {report['shards']} shards")

        # Columns that the graph does not use are not parsed.
        again = shardfeed.dask.read(spec)
        print(f"mean {abs(float(again['value'].mean().compute())):.3f}, "
              f"deviation {float(again['value'].std().compute()):.3f}")

    batch = next(iter(sf.read(spec).shuffle(seed=1).parse({"value": sf.float32, "sensor": sf.int64}).batch(64)))
    print(f"a batch for training has {len(batch['value'])} rows of {len(set(batch['sensor'].tolist()))} sensors")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/sensors@8")

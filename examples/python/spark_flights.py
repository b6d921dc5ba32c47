"""Cleans a table with Spark and writes it as shards, from which training reads it. It takes Spark 4, pyarrow and Java
(pip install 'shardfeed[spark]').

    python examples/python/spark_flights.py [OUT@N]
"""

import os
import sys
import tempfile

import shardfeed as sf
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

CITIES = ["BER", "LIS", "OSL", "ROM"]


def main(spec: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' interpreter, which has shardfeed
    spark = SparkSession.builder.master("local[2]").appName("flights").getOrCreate()
    shards = int(spec.rpartition("@")[2])
    try:
        flights = (spark.range(10_000)
                   .withColumn("origin", f.element_at(f.array(*map(f.lit, CITIES)), f.col("id").cast("int") % 4 + 1))
                   .withColumn("delay", f.when(f.col("id") % 50 != 0, (f.col("id") * 37 % 100 - 20).cast("float"))))
        # Spark refuses its default mode for sources in Python, so the mode is always set. A task writes a shard.
        (flights.where("delay is not null").repartition(shards, "id")
         .write.format("shardfeed").mode("overwrite").save(spec))

        written = spark.read.format("shardfeed").option("columns", "origin,delay").load(spec)
        late = (written.withColumn("origin", f.col("origin").cast("string"))  # bytes are always binary
                .groupBy("origin").agg(f.avg("delay").alias("delay")).orderBy("origin"))
        for row in late.collect():
            print(f"{row['origin']}: {row['delay']:.1f} minutes late")
    finally:
        spark.stop()

    ds = sf.read(spec).shuffle(seed=1).parse({"delay": sf.float32, "origin": sf.bytes}).batch(256)
    print(f"{sum(len(batch['delay']) for batch in ds)} rows for training")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/flights@4")

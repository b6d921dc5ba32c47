"""tensorflow-datasets: reads a folder that shardfeed has written, or writes one.

    tfds_folder.py FOLDER DATASET ours        reads DATASET's folder, which convert --tfds wrote
    tfds_folder.py FOLDER DATASET theirs      writes the folder FOLDER/numbers for shardfeed to read
"""

import pathlib

import common
import shardfeed as sf
import tensorflow as tf
import tensorflow_datasets as tfds

EPOCHS = 3


def write(folder):
    """Writes a dataset of two splits with TFDS and returns its folder."""
    def examples(begin, end):
        return tf.data.Dataset.range(begin, end).map(
            lambda i: {"n": i, "text": tf.strings.as_string(i)})

    builder = tfds.dataset_builders.TfDataBuilder(
        name="numbers", version="1.0.0", data_dir=str(folder), file_format="tfrecord",
        split_datasets={"train": examples(0, common.RECORDS), "test": examples(0, 10)},
        features=tfds.features.FeaturesDict({"n": tf.int64, "text": tfds.features.Text()}))
    builder.download_and_prepare()
    return folder / "numbers/1.0.0"


def main():
    folder, spec, (whose,) = common.arguments()
    if whose == "ours":
        builder = tfds.builder_from_directory(str(pathlib.Path(spec).parent))
        shuffled = builder.as_dataset(split="train", shuffle_files=True).shuffle(100, seed=1)
        epochs = [[int(row["n"]) for row in shuffled] for _ in range(EPOCHS)]
        halves = [[int(row["n"]) for row in builder.as_dataset(split=split)]
                  for split in ("train[:50%]", "train[50%:]")]
        common.tell(folder, epochs=epochs, halves=halves,
                    examples=builder.info.splits["train"].num_examples)
    else:
        written = write(folder)
        ds = (sf.read(str(written / "train")).shuffle(seed=1)
              .parse({"n": sf.int64, "text": sf.bytes}))
        epochs = [list(ds) for _ in range(EPOCHS)]
        assert all(int(row["text"]) == row["n"] for epoch in epochs for row in epoch)
        common.tell(folder, epochs=[[int(row["n"]) for row in epoch] for epoch in epochs],
                    test=len(sf.read(str(written / "test"))))


if __name__ == "__main__":
    main()

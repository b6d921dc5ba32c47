"""Writes datasets of TFDS, and what TFDS reads of them.

    pip install tensorflow tensorflow-datasets importlib_resources
    python3 testdata/tfds/make.py

Each folder is one dataset: the files that TFDS writes, without statistics, and expected.json: for each
example, and each feature by its name in records, the type, shape and values that TFDS reads. Images are
their pixels, strings are Latin-1, and null stands for an inner dataset without steps. Features are those of
TFDS's own datasets, or made by tests/frameworks/tfds_mock.py, as are all examples.
"""

import hashlib
import json
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/frameworks"))

import tfds_mock  # noqa: E402
from tfds_mock import np, tfds  # noqa: E402

DATASETS = {"coco": "coco/2017", "d4rl": "d4rl_adroit_door/v0-human", "higgs": "higgs", "ljspeech": "ljspeech",
            "movielens": "movielens/100k-ratings", "questions": "natural_questions/default",
            "wider_face": "wider_face"}
EXAMPLES = 3


def described(value):
    if value is None:
        return None
    values = [v.decode("latin-1") if isinstance(v, bytes) else v for v in value.ravel().tolist()]
    kind = "bytes" if value.dtype.kind in "OSU" else value.dtype.name
    return {"dtype": kind, "shape": list(value.shape), "values": values}


def write(name, features, examples, folder):
    builder = tfds_mock.made(features, examples, folder)
    read = tfds.as_numpy(builder.as_dataset(split="train", shuffle_files=False))
    expected = [{key: described(value) for key, value in tfds_mock.flat(features, example).items()}
                for example in read]
    target = HERE / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for file in sorted(pathlib.Path(builder.data_dir).iterdir()):
        shutil.copyfile(file, target / file.name)
    info = json.loads((target / "dataset_info.json").read_text())
    info.pop("location", None)
    (target / "dataset_info.json").write_text(json.dumps(info, indent=1) + "\n")
    (target / "expected.json").write_text(json.dumps(expected) + "\n")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, of_tfds in DATASETS.items():
            features = tfds.builder(of_tfds, data_dir=str(folder / "unused")).info.features
            write(name, features, tfds_mock.mock_examples(features, EXAMPLES), folder / name)
        write("types", *tfds_mock.every_type(EXAMPLES), folder / "types")
        write("nested", *tfds_mock.nested(EXAMPLES), folder / "nested")
    lines = ["# Datasets of TFDS", "",
             f"Written by `make.py` with TFDS {tfds.__version__}, TensorFlow {tfds_mock.tf.__version__} and NumPy "
             f"{np.__version__}; its first lines say what is in them.", "",
             "| file | bytes | sha256 |", "| --- | --- | --- |"]
    for file in sorted(HERE.glob("*/*")):
        data = file.read_bytes()
        if file.suffix != ".pyc":
            lines.append(f"| {file.relative_to(HERE)} | {len(data)} | {hashlib.sha256(data).hexdigest()[:12]} |")
    (HERE / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

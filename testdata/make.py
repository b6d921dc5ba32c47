#!/usr/bin/env python3
"""Makes everything in this folder again; the same versions give the same bytes each time.

Run by hand: python3 testdata/make.py, with TensorFlow, Pillow and python-snappy installed. The
formats are written by those, never by shardfeed, so that a mistake of ours cannot pass as right.
"""

import csv
import hashlib
import io
import json
import math
import os
import pathlib
import random
import shutil
import struct
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import PIL
import snappy
import tensorflow as tf
from PIL import Image, ImageDraw

HERE = pathlib.Path(__file__).resolve().parent
HEADER = 12
FOOTER = 4

notes = {}  # path below HERE -> (writer, what it proves)


def save(path, data, writer, proves):
    target = HERE / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    notes[path] = (writer, proves)


# ---- images


def drawing(kind, number):
    """An image of its class: its size and colours depend on the number alone."""
    rng = random.Random(f"{kind} {number}")
    width, height = rng.randint(40, 160), rng.randint(40, 160)
    a = tuple(rng.randrange(256) for _ in range(3))
    b = tuple(rng.randrange(256) for _ in range(3))
    image = Image.new("RGB", (width, height), a)
    draw = ImageDraw.Draw(image)
    if kind == "gradients":
        for x in range(width):
            t = x / width
            draw.line([(x, 0), (x, height)], fill=tuple(int(p + (q - p) * t) for p, q in zip(a, b)))
    elif kind == "circles":
        for radius in range(min(width, height) // 2, 4, -9):
            color = b if radius % 2 else a
            draw.ellipse([width // 2 - radius, height // 2 - radius,
                          width // 2 + radius, height // 2 + radius], fill=color)
    elif kind == "stripes":
        for y in range(0, height, 8 + number):
            draw.rectangle([0, y, width, y + 4], fill=b)
    else:
        draw.polygon([(0, height), (width // 2, 0), (width, height)], fill=b)
    return image


def make_images():
    suffix_of = {  # class -> how its images 0 .. 5 are saved
        "circles": ["jpg", "progressive", "png", "jpg", "gray", "JPEG"],
        "gradients": ["jpg", "jpg", "cmyk", "png", "progressive", "jpg"],
        "stripes": ["png", "jpg", "nested", "gray png", "jpg", "progressive"],
        "triangles": ["jpg", "rgba", "png", "jpg", "palette", "gray"],
    }
    for kind, forms in suffix_of.items():
        for number, form in enumerate(forms):
            image = drawing(kind, number)
            path, saved, options = f"{number}.jpg", "JPEG", {"quality": 80}
            if form == "progressive":
                options["progressive"] = True
            elif form == "gray":
                image = image.convert("L")
            elif form == "cmyk":
                image = image.convert("CMYK")
            elif form == "JPEG":
                path = f"{number}.JPEG"
            elif form != "jpg":
                path, saved, options = f"{number}.png", "PNG", {}
                if form == "nested":
                    path = f"deeper/still/{number}.png"
                elif form == "gray png":
                    image = image.convert("L")
                elif form == "rgba":
                    image = image.convert("RGBA")
                elif form == "palette":
                    image = image.quantize(16)
            data = io.BytesIO()
            image.save(data, saved, **options)
            what = {"jpg": "baseline JPEG", "JPEG": "baseline JPEG, suffix in capitals",
                    "progressive": "progressive JPEG", "gray": "gray JPEG", "cmyk": "CMYK JPEG",
                    "nested": "PNG in a folder of the class folder", "gray png": "gray PNG",
                    "rgba": "PNG with alpha", "palette": "PNG with a palette"}.get(form, "PNG")
            save(f"images/{kind}/{path}", data.getvalue(), f"Pillow {PIL.__version__}",
                 f"{what}, {image.width} x {image.height}")


# ---- tables


def make_tables():
    rng = random.Random("tables")
    syllables = ["bar", "len", "mo", "ka", "ti", "vos", "ran", "el", "und", "ja"]
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["name", "code", "population", "area", "founded", "height", "remark", "motto"])
    remarks = ["", "on a river", "capital, old", 'called "the Small"', "two\nlines", " spaced ",
               "größer als früher", "three\r\nlines\nhere", "5"]
    for _ in range(200):
        table.writerow([
            "".join(rng.choice(syllables) for _ in range(rng.randint(2, 4))).capitalize(),
            f"{rng.randrange(100000):05}",
            rng.randrange(100, 10**7),
            f"{rng.uniform(0.5, 900):.3f}",
            rng.choice(["", str(rng.randrange(800, 1990))]),
            rng.choice([str(rng.randrange(-3, 2500)), f"{rng.uniform(0, 2500):.1f}", "1e2", ""]),
            rng.choice(remarks),
            "" if rng.random() < 0.7 else rng.choice(["onward", "by the sea", "日の出"]),
        ])
    save("tables/cities.csv", text.getvalue().encode(), f"Python {sys.version.split()[0]} csv",
         "200 rows: quotes, doubled quotes, line breaks in quotes (LF and CRLF), empty cells, "
         "leading zeros, integers that meet floats")

    lines = []
    for i in range(200):
        event = {
            "id": i * 7919 - 2**40,
            "kind": rng.choice(["click", "scroll", "größe", "tab\tand \"quote\""]),
            "at": round(rng.uniform(0, 1e6), 3),
            "ok": rng.random() < 0.5,
            "scores": [round(rng.random(), 4) for _ in range(rng.randrange(4))],
            "tags": [rng.choice(["a", "b", "ü"]) for _ in range(rng.randrange(3))],
            "counts": [rng.randrange(-5, 5) for _ in range(1 + rng.randrange(3))],
            "user": {"name": rng.choice(["ann", "bob", "çem"]), "address": {"zip": "00123"},
                     "age": rng.choice([None, 33, 57])},
            "flags": [True, False],
            "gone": None,
        }
        if i % 5 == 0:
            event["sometimes"] = i if i % 2 else i + 0.5
        if i % 7 == 0:
            del event["kind"]
        lines.append(json.dumps(event, ensure_ascii=i % 2 == 0))
    lines.insert(50, "   ")
    save("tables/events.jsonl", ("\n".join(lines) + "\n").encode(),
         f"Python {sys.version.split()[0]} json",
         "200 objects: all kinds of values, nested objects, nulls, missing keys, a blank line")

    verses = []
    for n in range(1, 16):
        verses += [f"Shard {n} of many lay waiting to be read,",
                   "its records in a row, each with its CRC,",
                   "größere Wörter, 一行の詩, и тишина instead" if n % 3 == 0 else
                   "and every byte was where the index said",
                   "it was — and is — and so will always be."]
        if n == 7:
            verses.append("")
    save("tables/poem.txt", "\n".join(verses).encode(), "make.py",
         "61 lines, one blank, some not ASCII, no line break at the end")


# ---- TensorFlow


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    named = {name: feature(values) for name, values in features.items()}
    message = tf.train.Example(features=tf.train.Features(feature=named))
    return message.SerializeToString(deterministic=True)


def examples():
    rng = random.Random("examples")
    records = []
    for i in range(40):
        size = [0, 3, 40, 200, 900][i % 5]
        records.append(example(
            number=[i],
            negative=[-i, -(2**62), 2**63 - 1],
            weights=[math.sin(i + k) for k in range(1 + i % 7)],
            name=[f"record {i}".encode(), "ümläut".encode()],
            blob=[rng.randbytes(size)],
        ))
    return records


def tensorflow_file(records, compression):
    path = HERE / "writing.tmp"
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record)
    data = path.read_bytes()
    path.unlink()
    return data


def sequence(i):
    steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=range(k))) for k in range(i % 4)]
    words = [feature([f"word {k}".encode()]) for k in range(3)]
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={"id": feature([i]), "name": feature([b"s%d" % i])}),
        feature_lists=tf.train.FeatureLists(feature_list={
            "steps": tf.train.FeatureList(feature=steps),
            "words": tf.train.FeatureList(feature=words)}))
    return message.SerializeToString(deterministic=True)


def offsets(raw):
    """Where each frame starts, and where the last one ends."""
    found = [0]
    while found[-1] < len(raw):
        length, = struct.unpack_from("<Q", raw, found[-1])
        found.append(found[-1] + HEADER + length + FOOTER)
    return found


def make_tensorflow():
    writer = f"TensorFlow {tf.__version__} TFRecordWriter"
    records = examples()
    raw = tensorflow_file(records, "")
    gz = tensorflow_file(records, "GZIP")
    z = tensorflow_file(records, "ZLIB")
    # TFRecordOptions refuses SNAPPY, so its container is made here: a 4-byte big-endian size before
    # each raw block. That TensorFlow reads it back is checked below.
    blocks = [raw[i:i + 4096] for i in range(0, len(raw), 4096)]
    packed = b"".join(struct.pack(">I", len(c)) + c for c in map(snappy.compress, blocks))
    save("tensorflow/examples.tfrecord", raw, writer, "40 Examples, 1 to 3 kinds of lists")
    save("tensorflow/examples.tfrecord.gz", gz, writer, "the same, one GZIP member")
    save("tensorflow/examples.tfrecord.zlib", z, writer, "the same, one ZLIB stream")
    save("tensorflow/examples.tfrecord.snappy", packed,
         f"python-snappy {snappy.__version__}, read back by TensorFlow",
         "the same, SNAPPY in blocks of 4 KiB that cut records")
    for suffix, kind in [("", ""), (".gz", "GZIP"), (".zlib", "ZLIB"), (".snappy", "SNAPPY")]:
        path = str(HERE / f"tensorflow/examples.tfrecord{suffix}")
        dataset = tf.data.TFRecordDataset(path, compression_type=kind)
        assert list(dataset.as_numpy_iterator()) == records, path

    odd = tf.train.Example()
    odd.features.feature["no_kind"].SetInParent()
    odd.features.feature["no_values"].int64_list.SetInParent()
    odd_records = [b"", b"\n\x00", odd.SerializeToString(deterministic=True), records[1]]
    save("tensorflow/odd.tfrecord", tensorflow_file(odd_records, ""), writer,
         "an empty record, an Example without features, features without kind or values")
    save("tensorflow/sequence.tfrecord", tensorflow_file([sequence(i) for i in range(12)], ""),
         writer, "12 SequenceExamples, some lists empty")
    save("tensorflow/empty.tfrecord", tensorflow_file([], ""), writer, "no records: no bytes")
    save("tensorflow/empty.tfrecord.gz", tensorflow_file([], "GZIP"), writer,
         "no records, an empty GZIP member")
    return raw, gz, z


# ---- what TensorFlow parses out of Examples


TYPES = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}


def tensorflow_spec(spec):
    """Ours, as TensorFlow says it."""
    dtype = TYPES[spec["dtype"]]
    shape = spec.get("shape", [])
    if spec["layout"] == "fixed":
        return tf.io.FixedLenFeature(shape, dtype, spec.get("default"))
    if spec["layout"] == "padded":
        return tf.io.FixedLenSequenceFeature(shape, dtype, True, spec.get("default"))
    if spec["layout"] == "ragged":
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    return tf.io.VarLenFeature(dtype)


def plain(tensor):
    """The values of a tensor in order; strings in hexadecimal."""
    flat = tensor.numpy().reshape(-1).tolist()
    return [value.hex() if isinstance(value, bytes) else value for value in flat]


def in_json(tensor):
    if isinstance(tensor, tf.RaggedTensor):
        return {"values": plain(tensor.flat_values),
                "splits": [plain(splits) for splits in tensor.nested_row_splits]}
    if isinstance(tensor, tf.SparseTensor):
        return {"values": plain(tensor.values), "indices": plain(tensor.indices),
                "shape": plain(tensor.dense_shape)}
    return {"values": plain(tensor), "shape": list(tensor.shape)}


def parsed_case(name, records, features, feature_lists=None):
    """`records` parsed as one batch. With feature lists, they are SequenceExamples."""
    specs = {spec["name"]: tensorflow_spec(spec) for spec in features}
    try:
        if feature_lists is None:
            parsed = [tf.io.parse_example(records, specs)]
        else:
            steps = {spec["name"]: tensorflow_spec(spec) for spec in feature_lists}
            parsed = tf.io.parse_sequence_example(records, specs, steps)[:2]
        results = [{key: in_json(value) for key, value in part.items()} for part in parsed]
    except tf.errors.InvalidArgumentError:
        results = None  # refused
    return {"case": name, "records": [record.hex() for record in records], "features": features,
            "feature_lists": feature_lists or [], "results": results}


def example_of(features):
    """Like example(), with names that are no Python names and features without a kind or values."""
    named = {}
    for name, values in features.items():
        if isinstance(values, list) and values:
            named[name] = feature(values)
        elif values == []:
            named[name] = tf.train.Feature(int64_list=tf.train.Int64List())
        else:
            named[name] = tf.train.Feature()
    message = tf.train.Example(features=tf.train.Features(feature=named))
    return message.SerializeToString(deterministic=True)


def sequence_of(context, lists):
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={k: feature(v) for k, v in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list={
            name: tf.train.FeatureList(feature=[
                feature(step) if step else tf.train.Feature(float_list=tf.train.FloatList())
                for step in steps])
            for name, steps in lists.items()}))
    return message.SerializeToString(deterministic=True)


def make_parsed():
    def spec(name, dtype, layout, shape=None, default=None):
        found = {"name": name, "dtype": dtype, "layout": layout}
        if shape is not None:
            found["shape"] = shape
        if default is not None:
            found["default"] = default
        return found

    def of_each(layout, **options):
        return [spec("i", "int64", layout, **options), spec("f", "float32", layout, **options),
                spec("b", "bytes", layout, **options)]

    rows = [
        {"i": [1, -2, 2**62], "f": [0.5, -1.25], "b": [b"one", b"", b"\xff\x00"]},
        {"f": [3.0]},
        {"i": None, "b": [b"x"]},
        {"i": [], "other": [b"not asked for"]},
        {"i": [-2**63] * 5, "f": [0.1] * 4, "b": [b"long" * 20]},
        {},
    ]
    records = [example_of(row) for row in rows]
    cases = [parsed_case(layout, records, of_each(layout))
             for layout in ("ragged", "sparse", "padded")]
    cases.append(parsed_case("padded with a value", records, [
        spec("i", "int64", "padded", default=-1), spec("f", "float32", "padded", default=9.5)]))

    pairs = [example(x=[1.0, 2.0, 3.0, 4.0], n=[5, 6]), example(n=[7, 8, 9, 10]), example(x=[5.0, 6.0])]
    cases.append(parsed_case("padded pairs", pairs, [
        spec("x", "float32", "padded", [2]), spec("n", "int64", "padded", [2, 1])]))
    odd = [example(x=[1.0, 2.0, 3.0])]
    cases.append(parsed_case("half a pair", odd, [spec("x", "float32", "padded", [2])]))

    fixed = [example(x=[1.0, 2.0], n=[3], b=[b"four"]), example(x=[5.0, 6.0], n=[-7], b=[b""])]
    cases.append(parsed_case("fixed", fixed, [
        spec("x", "float32", "fixed", [2]), spec("n", "int64", "fixed"), spec("b", "bytes", "fixed", [1, 1])]))
    for name, record in (("missing", example(n=[1])), ("too few", example(x=[1.0])),
                         ("too many", example(x=[1.0, 2.0, 3.0])), ("of another kind", example(x=[1, 2])),
                         ("without values", example_of({"x": []})), ("without a kind", example_of({"x": None})),
                         ("no Example", b"hello world"), ("cut", fixed[0][:-3])):
        cases.append(parsed_case(f"fixed, {name}", [record], [spec("x", "float32", "fixed", [2])]))
        cases.append(parsed_case(f"fixed with a default, {name}", [record], [
            spec("x", "float32", "fixed", [2], [0.25, 0.75])]))
        cases.append(parsed_case(f"ragged, {name}", [record], [spec("x", "float32", "ragged")]))
        cases.append(parsed_case(f"sparse, {name}", [record], [spec("x", "float32", "sparse")]))

    # The later of equal names counts; a list in several pieces is one.
    twice = example(i=[1, 2]) + example(i=[3])
    cases.append(parsed_case("equal names", [twice], [spec("i", "int64", "ragged")]))

    sequences = [
        sequence_of({"id": [1]}, {"x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "w": [[b"a", b"b"], [b"c"]],
                                  "v": [[1.5], [], [2.5, 3.5]]}),
        sequence_of({"id": [2]}, {"x": [], "v": [[]]}),
        sequence_of({}, {"x": [[7.0, 8.0]], "w": [[b"long" * 9], [b"d", b"e", b"f"]]}),
    ]
    context = [spec("id", "int64", "ragged")]
    whole = [spec("x", "float32", "padded", [2])]
    for layout in ("ragged", "sparse"):
        cases.append(parsed_case(f"sequence, {layout}", sequences, context, whole + [
            spec("w", "bytes", layout), spec("v", "float32", layout)]))
    for name, steps in (("too few", [[1.0]]), ("of another kind", [[1, 2]])):
        cases.append(parsed_case(f"sequence, {name}", [sequence_of({}, {"x": steps})], context, whole))
    lines = ",\n".join(json.dumps(case) for case in cases)
    save("tensorflow/parsed.json", f"[\n{lines}\n]\n".encode(), f"TensorFlow {tf.__version__} parse_example",
         "records in hexadecimal, features asked for, and what the batch is; results null: refused")


# ---- bad


def make_bad(raw, gz, z):
    at = offsets(raw)
    last = at[-2]
    middle = at[17]
    writer = "make.py, of tensorflow/examples.tfrecord"

    def flipped(data, offset):
        data = bytearray(data)
        data[offset] ^= 0x10
        return bytes(data)

    save("bad/cut_header.tfrecord", raw[:last + 5], writer, "5 bytes of the last header")
    save("bad/cut_payload.tfrecord", raw[:last + HEADER + 20], writer,
         "20 bytes of the last payload")
    save("bad/cut_footer.tfrecord", raw[:-1], writer, "3 bytes of the last footer")
    save("bad/flipped_payload.tfrecord", flipped(raw, middle + HEADER + 30), writer,
         "one bit in the payload of record 17")
    save("bad/flipped_length.tfrecord", flipped(raw, middle + 1), writer,
         "one bit in the length of record 17")
    for count in (1, 8, 11):
        save(f"bad/stray_{count}.tfrecord", raw + b"stray bytes"[:count], writer,
             f"{count} bytes after the last record, fewer than a header; TensorFlow reads this")
    save("bad/text.tfrecord", b"This is a text file.\nIt is named like a TFRecord file.\n",
         "make.py", "no TFRecord at all")

    writer += ".gz"
    save("bad/gzip_cut.tfrecord.gz", gz[:len(gz) // 2], writer, "the first half")
    save("bad/gzip_no_trailer.tfrecord.gz", gz[:-8], writer,
         "CRC and size are missing; TensorFlow reads this")
    save("bad/gzip_wrong_crc.tfrecord.gz", flipped(gz, len(gz) - 8), writer,
         "one bit in the CRC of the trailer")
    save("bad/gzip_zero_padding.tfrecord.gz", gz + bytes(512), writer,
         "512 zeros after the member, as tapes and block devices leave")
    save("bad/zlib_two_streams.tfrecord.zlib", z + zlib.compress(raw[:at[3]]),
         "make.py, of tensorflow/examples.tfrecord.zlib",
         "a second stream, which TensorFlow ignores")


def write_readme():
    lines = [
        "# Test data", "",
        "Written by `python3 testdata/make.py` (the same bytes each time with the same versions), by",
        "programs other than shardfeed, so that a mistake made twice cannot pass. `bad/` has one",
        "defect in each file. All images, tables and texts are made by the script. `torchvision/`",
        "has a script of its own, which takes torchvision, `table_cases/` one that takes pandas and DuckDB,",
        "`heif/` one that takes pillow-heif, `jxl/` one that takes cjxl, `array_record/` one that takes",
        "array_record, and `tfds/` one that takes TFDS, with a README.", "",
        "| file | bytes | sha256 | written by | what it proves |",
        "| --- | --- | --- | --- | --- |",
    ]
    for path, (writer, proves) in sorted(notes.items()):
        data = (HERE / path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:12]
        lines.append(f"| {path} | {len(data)} | {digest} | {writer} | {proves} |")
    (HERE / "README.md").write_text("\n".join(lines) + "\n")


def main():
    for folder in ("images", "tables", "tensorflow", "bad"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    make_images()
    make_tables()
    make_bad(*make_tensorflow())
    make_parsed()
    write_readme()
    total = sum((HERE / path).stat().st_size for path in notes)
    print(f"{len(notes)} files, {total} bytes")


if __name__ == "__main__":
    main()

"""Broken raw data of every kind, and its messages: file, place, remedy. IN is the folder."""

import gzip
import io
import json
import struct
import tarfile

import harness
import pytest
from harness import DEFECTS, TESTDATA

JPEG = (TESTDATA / "images/circles/0.jpg").read_bytes()
SUFFIXES = "jpg, jpeg, png, bmp, webp, gif, tif, tiff, avif, heic, heif, jxl"


def refuse(folder, kind, files, sources, message, *options):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    out = folder.with_name(folder.name + "-out")
    found = harness.fail(DEFECTS, "convert", kind, *(folder / source for source in sources),
                         out / "x@1",
                         *(option.replace("IN/", f"{folder}/") for option in options))
    assert found.replace(f"{folder}/", "IN/").replace(f"{folder}:", "IN:") == message
    assert not out.exists() or harness.tree(out) == {}


# ---- images


@pytest.mark.parametrize("files, message", [
    ({"cat/a.jpg": ""}, "IN/cat/a.jpg: the file is empty; remove it, or get the image again"),
    ({"cat/a.jpg": "text"}, 'IN/cat/a.jpg: not an image: starts with "text"'),
    ({"cat/a.jpg": b"P6\n1 1\n255\nabc"}, "IN/cat/a.jpg: PNM (PBM, PGM or PPM), which is not supported; convert it to JPEG or "
     "PNG"),
    ({"cat/a.jpg": JPEG[:20]}, "IN/cat/a.jpg: JPEG ends before its size, after 20 bytes"),
    ({"cat/a.txt": "x"}, f"IN/cat: the folder of this class has no images (files named {SUFFIXES}); "
     "remove it, or add some"),
    ({"a.jpg": JPEG}, "IN: 1 image in no class folder: a.jpg; expected one folder per class, "
     "as in IN/cat/1.jpg")])
def test_imagefolder(tmp_path, files, message):
    refuse(tmp_path, "imagefolder", files, ["."], message)


def test_an_image_of_another_format_is_left_out(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jpg").write_bytes(b"P6\n1 1\n255\nabc")
    (tmp_path / "in/b.jpg").write_bytes(JPEG)
    told = harness.leave_out("convert", "images", tmp_path / "in", tmp_path / "out/x@1", "--on-error", "skip",
                             "--max-skipped", "100%", "--json").json
    assert told["records"] == 1


@pytest.mark.parametrize("text, message", [
    ("dog\n", "IN/in/cat: this class is not in IN/map; add it there, or leave it out"),
    ("cat\ncat\n", 'IN/map:2: the class "cat" appears twice'),
    ("cat\n\ndog\n", "IN/map:2: a blank line between names; remove it, since lines number the "
     "classes"),
    ("", "IN/map: the file has no classes"),
    ('{"cat": -1}', 'IN/map: the number of "cat" must be an integer of at least 0, got -1'),
    ('{"cat": 1, "dog": 1}', 'IN/map: "cat" and "dog" have the same number 1'),
    ('{"cat": 18446744073709551615}',
     'IN/map: the number of "cat" must be an integer of at least 0, got 18446744073709551615'),
    ('{"cat": 1', "IN/map: starts like a JSON object, but is not one: "
     "parse error at line 1, column 10: syntax error while parsing object - unexpected end of "
     'input; expected \'}\'; expected {"cat": 0, "dog": 1}, or one class name per line'),
    ('{"cat": ' + "[" * 100_000 + "]" * 100_000 + "}", "IN/map: starts like a JSON object, but is "
     "not one: at byte 107 its values are nested more than 100 deep; expected "
     '{"cat": 0, "dog": 1}, or one class name per line')])
def test_class_map(tmp_path, text, message):
    refuse(tmp_path, "imagefolder", {"in/cat/a.jpg": JPEG, "map": text}, ["in"], message,
           "--class-map", "IN/map")


@pytest.mark.parametrize("labels, text, message", [
    ("l.csv", "name,label\na.jpg,1\n", 'IN/in/b.jpg: IN/l.csv has no label for "b.jpg"'),
    ("l.csv", "name,label\na.jpg,1\na.jpg,2\n",
     'IN/l.csv:3: "a.jpg" has the label "2", but "1" at line 2; an image has one label'),
    ("l.csv", "name,label\na.jpg,1\na.jpg,1\n",
     'IN/l.csv:3: "a.jpg" appears twice, first at line 2'),
    ("l.csv", "name,x,y\na.jpg,1,2\n",
     'IN/l.csv:1: expected a column named "label" among the 3 columns; pass --label-column NAME to '
     "say which one it is"),
    ("l", "a.jpg\n", 'IN/l:1: expected "NAME LABEL", got "a.jpg"; pass --label-column NAME to read a table')])
def test_label_file(tmp_path, labels, text, message):
    refuse(tmp_path, "images", {"in/a.jpg": JPEG, "in/b.jpg": JPEG, labels: text}, ["in"], message,
           "--label-file", f"IN/{labels}")


def test_images_and_files(tmp_path):
    refuse(tmp_path, "images", {"a.txt": "x"}, ["."], f"IN: no images (files named {SUFFIXES})")
    refuse(tmp_path, "files", {"below/.hidden": "x"}, ["below"],
           "IN/below: no files (hidden files, named .NAME, are skipped)")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/gone").symlink_to("nowhere")
    assert harness.fail(harness.IO_FAILED, "convert", "files", tmp_path / "links",
                        tmp_path / "out/x@1") == f"{tmp_path}/links/gone: the target of the link does not exist"


@pytest.mark.parametrize("files, message", [
    ({}, "IN/a.jpg: the image has no text: expected a.txt or a.json"),
    ({"a.png": JPEG, "a.txt": "x"}, "IN/a.jpg: a.png has the same name except for the suffix, so "
     "it is unclear to which of them the text belongs; rename one"),
    ({"a.txt": b"\xff"}, "IN/a.txt: not UTF-8; convert it, for example with iconv -f WINDOWS-1252 -t "
     "UTF-8"),
    ({"a.json": '{"x": }'}, "IN/a.json:1:7: invalid JSON: syntax error while parsing value - "
     "unexpected '}'; expected '[', '{', or a literal; last read: \"\\\"x\\\": }\""),
    ({"a.json": '{"text": "y"}', "a.txt": "x"}, 'IN/a.json: the key "text" has the name of a '
     "feature that the image or the text makes; rename the key; pass --keep-json to store the JSON "
     "unchanged instead")])
def test_captions(tmp_path, files, message):
    refuse(tmp_path, "captions", {"a.jpg": JPEG, **files}, ["."], message)


BOX = {"id": 7, "image_id": 3, "category_id": 2, "bbox": [1, 2, 3, 4]}
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 10, 20) + b"\x08\2\0\0\0"


def coco(annotation, **image):
    return json.dumps({"images": [{"id": 3, "file_name": "a.png", **image}], "annotations": [annotation],
                       "categories": [{"id": 2, "name": "cat"}]})


@pytest.mark.parametrize("content, message", [
    (coco(BOX | {"category_id": 5}),
     "IN/x.json:1: annotation 7: its category 5 is not among the categories"),
    (coco(BOX | {"image_id": 5}), "IN/x.json:1: annotation 7: its image 5 is not among the images"),
    (coco(BOX | {"bbox": [1, 2, 3]}), 'IN/x.json:1: annotation 7: "bbox" must be [x, y, width, height], '
     'with a width and height of at least 0, got "[1,2,3]"'),
    (coco(BOX, width=20, height=10), "IN/a.png: the image has 10x20 pixels, but IN/x.json was made for "
     "20x10; get the image that was annotated, or rotate this one as its Exif orientation says"),
    (coco(BOX)[:-1], "IN/x.json:1: the file ends inside the object; it may be truncated"),
    ("[]", 'IN/x.json:1: expected an object, got "[]"')])
def test_coco(tmp_path, content, message):
    refuse(tmp_path, "coco", {"x.json": content, "a.png": PNG}, ["x.json"], message)


def voc(box, name="cat"):
    edges = "".join(f"<{edge}>{value}</{edge}>" for edge, value in zip(
        ("xmin", "ymin", "xmax", "ymax"), box))
    return f"<annotation>\n<object><name>{name}</name><bndbox>{edges}</bndbox></object></annotation>"


@pytest.mark.parametrize("xml, message", [
    ("<annotation>\n</a>", "IN/in/a.xml:2: invalid XML: Start-end tags mismatch"),
    (voc([3, 1, 2, 2]), "IN/in/a.xml:2: the box ends before it begins: x from 3 to 2, y from 1 to 2"),
    (voc([1, 1, 2, 2], "dog"), 'IN/in/a.xml: object 1: the class "dog" is not in IN/map')])
def test_voc(tmp_path, xml, message):
    refuse(tmp_path, "voc", {"in/a.xml": xml, "in/a.png": PNG, "map": "cat\n"}, ["in"], message,
           "--class-map", "IN/map")


@pytest.mark.parametrize("line, message", [
    ("0 320 240 64 48", "320 is not between 0 and 1; coordinates are fractions of the image's width and "
     "height, so divide pixels by these"),
    ("0 0.5 0.5", "expected 4 values of a box, or x and y of at least 3 points, after the class, got 2 "
     "values"),
    ("1 0.5 0.5 0.5 0.5", "the class 1 has no name; there are 1, from 0 on")])
def test_yolo(tmp_path, line, message):
    refuse(tmp_path, "yolo", {"in/images/a.png": PNG, "in/labels/a.txt": f"\n{line}\n",
                              "in/classes.txt": "cat"}, ["in"], f"IN/in/labels/a.txt:2: {message}")


@pytest.mark.parametrize("table, message", [
    ("file_name,image/width\na.png,3\n", '1: the column "image/width" has the name of a feature that the '
     "image makes; rename it"),
    ("file_name,x\n,3\n", "2: no file_name, which names the image of the row"),
    ("file_name,x\n../a.png,3\n", '2: the name "../a.png" leads outside of the folder of images, IN/in; '
     "names are relative to it")])
def test_metadata(tmp_path, table, message):
    refuse(tmp_path, "images", {"in/a.png": PNG, "in/metadata.csv": table}, ["in"],
           f"IN/in/metadata.csv:{message}")


# ---- tables and text


@pytest.mark.parametrize("kind, delimiter", [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("text, message", [
    ("a,b\n1,2\n1,2,3\n", ':3: expected 2 cells as in the header, got 3; cells that contain "," '
     "must be quoted"),
    ("a,b\n1,2\n1\n", ":3: expected 2 cells as in the header, got 1"),
    ('a,b\n1,"2\n3\n', ":2: the quote that opens here is never closed; pass --no-quotes to "
     "treat quotes as ordinary characters"),
    ('a,b\n"1"x,2\n', ':2: expected a delimiter (",") or the end of the row after a closing quote, '
     'got "x,2\\n"; a quote inside quotes must be doubled; pass --no-quotes to treat quotes as '
     "ordinary characters"),
    ("", ": the file is empty; its first row must name the columns"),
    ("a,b\n", ": no records: nothing follows the header; pass --no-header to take the first row for a record"),
    ("a\r1\r", ":1: a carriage return without a line feed, outside quotes; lines end in LF or "
     "CRLF")])
def test_tables(tmp_path, kind, delimiter, text, message):
    if kind == "tsv":
        text = text.replace(",", "\t")
        message = message.replace('","', '"\\t"').replace('"x,2', '"x\\t2')
    refuse(tmp_path, kind, {"t": text}, ["t"], "IN/t" + message)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "text"])
@pytest.mark.parametrize("content, message", [
    (b"a\n\xff\n", ":2: not UTF-8 at byte 2 of the file (found 0xff); convert it, for example with "
     "iconv -f WINDOWS-1252 -t UTF-8"),
    (b"a\n1\0\n", ":2: a NUL byte at byte 3 of the file, which may be binary or UTF-16"),
    ("a\n1\n".encode("utf-16-le"), ": looks like UTF-16LE; convert it to UTF-8 (iconv -f UTF-16LE "
     "-t UTF-8)"),
    (b"\x04\x22\x4d\x18", ": is compressed with LZ4; decompress it first (lz4 -d)"),
    (gzip.compress(gzip.compress(b"a\n1\n")), ": is compressed twice; decompress it once (gzip -d)")],
    ids=["latin1", "nul", "utf16", "lz4", "gzip"])
def test_what_is_not_text(tmp_path, kind, content, message):
    if kind == "jsonl":
        content = content.replace(b"a\n", b'{"a": 1}\n')
        message = message.replace("byte 2 ", "byte 9 ").replace("byte 3 ", "byte 10 ")
    if kind in ("csv", "tsv"):
        message = message.replace("; convert it, for example with iconv -f WINDOWS-1252 -t UTF-8",
                                  "; it is damaged, or of another encoding, which iconv -t UTF-8 converts; "
                                  "pass --on-error skip to leave out such rows")
        message = message.replace("; convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8)",
                                  "; pass --encoding utf-16le to read it as such")
    refuse(tmp_path, kind, {"t": content}, ["t"], "IN/t" + message)


def test_schema(tmp_path):
    refuse(tmp_path, "csv", {"t": "a\nx\n", "s": '{"a": "int64"}'}, ["t"],
           'IN/t:2: expected int64 in column "a", as the schema says, got "x"', "--schema", "IN/s")


# ---- JSON


@pytest.mark.parametrize("text, message", [
    ('{"a": 1}\n{"a": tru}\n', ':2:10: invalid JSON: syntax error while parsing value - invalid '
     'literal; last read: "\\"a\\": tru}"'),
    ("[1]\n", ':1: got an array, but each line must be a JSON object: "[1]"; the file starts like '
     "an array of objects, which the kind json reads; JSON lines have one object on each line"),
    ('{"a": 1}\n{"a": "x"}\n', ':2: "a": text here, but a number at IN/t:1'),
    ('{"a": [1]}\n{"a": [[1]]}\n', ':2: "a": a list of lists here, but a value or a list of values at IN/t:1'),
    ('{"a": [1, [2]]}\n', ':1: "a": values and lists of values in one list'),
    ('{"a": [[1]], "a_lengths": 1}\n', ':1: "a_lengths": the lengths of the lists in "a" have this feature '
     "name, too; rename the key"),
    ('{"a": 18446744073709551616}\n', ':1: "a": the integer 18446744073709551616 is outside of int64; pass '
     "--schema FILE to make it bytes (its text) or float"),
    ('{"a": [1, "x"]}\n', ':1: "a": text and numbers in one list'),
    ('{"a": [1, null]}\n', ':1: "a": null in a list, but features cannot have missing values in lists'),
    ('{"a": 1e39}\n', ':1: "a": the number 1e+39 is outside of float32'),
    ('{"a": 1, "a": 2}\n', ':1: the key "a" appears twice in one object'),
    ("\n\n", ": no records: every line is blank")])
def test_jsonl(tmp_path, text, message):
    refuse(tmp_path, "jsonl", {"t": text}, ["t"], "IN/t" + message)


@pytest.mark.parametrize("text, message", [
    ('{"a": 1}', ":1: expected an array of objects, got an object; the kind jsonl reads one "
     "object per line, and jq .KEY takes the array at a key out of an object"),
    ('[{"a": 1}, 2]', ':1: got a number, but each element of the array must be an object: "2"'),
    ('[{"a": 1}', ":1: the file ends inside the array; it may be truncated"),
    ('[{"a": 1} {"a": 2}]', ":1: expected a comma or the end of the array after an element, got "
     '"{\\"a\\": 2}]"'),
    ('[{"a": 1}] x', ':1: expected the end of the file after the array, got "x"; a file must hold '
     "a single array"),
    ("[]", ": no records: the array is empty"),
    ("", ":1: the file is empty; expected an array of objects"),
    ('[{"a": 1},\n {"a": }]', ":2:7: invalid JSON: syntax error while parsing value - unexpected "
     "'}'; expected '[', '{', or a literal; last read: \"\\\"a\\\": }\"")])
def test_json(tmp_path, text, message):
    refuse(tmp_path, "json", {"t": text}, ["t"], "IN/t" + message)


# ---- tar


def tar(*members, kind=tarfile.REGTYPE, link=""):
    """An archive of (name, content); the last one is of `kind`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for i, (name, content) in enumerate(members):
            info = tarfile.TarInfo(name)
            if i + 1 == len(members):
                info.type, info.linkname = kind, link
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


TWO = tar(("a.txt", b"x" * 600), ("b.txt", b"y"))
NO_LINKS = "which is not followed; archive the file instead (tar --dereference --hard-dereference)"


@pytest.mark.parametrize("content, message", [
    (b"", "the file is empty"),
    (b"x" * 600, 'not a tar archive, or its first header is damaged: no header, but "xxxxxxxxxxxxxxxx" at byte 0'),
    (TWO[:700], 'the archive is cut off: it ends inside "a.txt", 412 bytes before that member\'s end, at '
     "byte 700"),
    (TWO[:2560], "the archive is cut off: it ends after a member, without the zero blocks that end a "
     "tar, at byte 2560"),
    (TWO[:1536] + b"z" + TWO[1537:], "a damaged header, whose checksum is wrong, at byte 1536"),
    (TWO + TWO, "the archive ends at byte 2560, but other data follows, as if several tar files "
     "had been concatenated; split them: at byte 10240"),
    (gzip.compress(TWO, mtime=0)[:60], "GZIP data ends prematurely at byte 60: the file is "
     "truncated, or its writer was not closed"),
    (tar(("../a.txt", b"x")), '"../a.txt" at byte 0 leads outside the archive; rename it'),
    (tar(("b/../../a.txt", b"x")), '"b/../../a.txt" at byte 0 leads outside the archive; rename it'),
    (tar(("/etc/a.txt", b"x")), '"/etc/a.txt" at byte 0 leads outside the archive; rename it'),
    (tar(("a.txt", b"x"), ("a.png", b""), kind=tarfile.SYMTYPE, link="/etc/passwd"),
     f'"a.png" at byte 1024 is a link to "/etc/passwd", {NO_LINKS}'),
    (tar(("a.png", b""), kind=tarfile.LNKTYPE, link="b.png"),
     f'"a.png" at byte 0 is a link to "b.png", {NO_LINKS}'),
    (tar(("a.png", b""), kind=tarfile.FIFOTYPE),
     '"a.png" at byte 0 is a pipe or a device, not a file'),
    (tar(("a.png", b""), kind=tarfile.CHRTYPE),
     '"a.png" at byte 0 is a pipe or a device, not a file'),
    (tar(("a.txt", b"x"), ("a.txt", b"y")), '"a.txt" at byte 1024 appears twice'),
    (tar(("a.txt", b"x"), ("b.txt", b"y"), ("a.png", b"z")), '"a.png" at byte 2048 is not next to '
     "the other files of its record; sort the archive (tar --sort=name)"),
    (tar(("a", b"x")), "no records, only a: the archive contains no files with a dot in their names")])
def test_tar(tmp_path, content, message):
    refuse(tmp_path, "tar", {"t.tar": content}, ["t.tar"], "IN/t.tar: " + message)


def test_tar_with_broken_json(tmp_path):
    refuse(tmp_path, "tar", {"t.tar": tar(("a.json", b'{"x": tru}'))}, ["t.tar"],
           'IN/t.tar: the JSON of "a": byte 10: syntax error while parsing value - invalid literal; '
           'last read: "\\"x\\": tru}"', "--parse-json")


# ---- arrays


def idx(kind, dimensions, content):
    return struct.pack(f">4B{len(dimensions)}I", 0, 0, kind, len(dimensions),
                       *dimensions) + content


IDX = idx(8, (2, 1, 1), b"ab")


@pytest.mark.parametrize("files, message", [
    ({"i": b"hello"}, "IN/i: not an IDX file: expected two zero bytes, a type and the number of "
     'dimensions at its start, got "hell"'),
    ({"i": IDX[:-1]}, "IN/i: the header announces 2 records of 1 bytes, 18 bytes in total, but the "
     "file ends at byte 17, 1 bytes too early; get the file again"),
    ({"i": IDX + b"c"}, "IN/i: the header announces 2 records of 1 bytes, which end at byte 18, but "
     "more data follows; the header or the file is wrong"),
    ({"i": idx(13, (1, 1, 1), b"1234")}, "IN/i: expected images (unsigned bytes in 3 or 4 "
     "dimensions) or labels (integers in 1 dimension), got float32 values in 3 dimensions"),
    ({"i": idx(8, (0, 1, 1), b"")}, "IN/i: no records: 0 images"),
    ({"i": gzip.compress(IDX, mtime=0)[:-3]}, "IN/i: GZIP data ends prematurely at byte 31: the "
     "file is truncated, or its writer was not closed"),
    ({"i": IDX, "l": idx(8, (3,), b"abc")}, "IN/i: 2 images, but IN/l holds 3 labels"),
    ({"l": idx(8, (3,), b"abc")}, "IN/l: a file of labels without a file of images")])
def test_idx(tmp_path, files, message):
    refuse(tmp_path, "idx", files, list(files), message)


def test_idx_and_class_map(tmp_path):
    refuse(tmp_path, "idx", {"i": IDX, "l": idx(8, (2,), b"\0\1"), "map": "cat\n"}, ["i", "l"],
           "IN/l: label 1 of record 1 is not in IN/map", "--class-map", "IN/map")


@pytest.mark.parametrize("content, options, message", [
    (b"", ["--variant", "10"], "no records: the file is empty"),
    (b"\7" + bytes(3075), [], "expected a multiple of 3073 bytes (CIFAR-10) or 3074 bytes "
     "(CIFAR-100), got 3076; the file must be a complete binary batch (*.bin)"),
    (b"\x0a" + bytes(3072), [], "record 0 at byte 0: the label 10 is out of range; the file must be "
     "of the binary version of CIFAR-10")])
def test_cifar(tmp_path, content, options, message):
    refuse(tmp_path, "cifar", {"x.bin": content}, ["x.bin"], "IN/x.bin: " + message, *options)


def npy(descr, shape, content, order="False"):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    header += " " * (64 - (len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


@pytest.mark.parametrize("content, message", [
    (b"", 'not a .npy file: it starts with ""'),
    (b"PK\3\4zip", 'not a .npy file: it starts with "PK\\x03\\x04zip"; an .npz file is an archive '
     "of .npy files: unpack it (unzip)"),
    (b"\x93NUMPY", "the file ends inside its header"),
    (npy("|O", "(1,)", b""), 'values of type "|O": only Python can read Python objects; '
     "save an array of numbers or text"),
    (npy(">i4", "(1,)", b"1234"), 'values of type ">i4": big-endian; save it with '
     "a.astype(a.dtype.newbyteorder('<'))"),
    (npy("<c8", "(1,)", bytes(8)), 'values of type "<c8": expected booleans, integers, floats up '
     "to 64 bits, or text of a fixed size"),
    (npy("<i4", "(1, 1)", b"1234", "True"), "the array is in Fortran order (columns first), so its "
     "rows are not contiguous; save it with numpy.ascontiguousarray(a)"),
    (npy("<i4", "()", b"1234"), "a single value, not an array: it has no rows"),
    (npy("<i4", "(2,)", b"1234"), "the header announces 2 rows of 4 bytes, but 4 bytes follow it: "
     "the file is cut off"),
    (npy("<i4", "(1,)", b"12345"), "the header announces 1 rows of 4 bytes, but 5 bytes follow it: "
     "data follows the array"),
    (npy("<i4", "(0,)", b""), "no records: the array has no rows"),
    (npy("<u8", "(1,)", b"\xff" * 8), "row 0: the value 18446744073709551615 is outside of int64"),
    (npy("<f8", "(1,)", struct.pack("<d", 1e300)), "row 0: the value 1e+300 is outside of "
     "float32")])
def test_npy(tmp_path, content, message):
    refuse(tmp_path, "npy", {"x.npy": content}, ["x.npy"], "IN/x.npy: " + message)


# ---- TFRecord

FRAME = harness.frame(b"abc")


@pytest.mark.parametrize("content, message", [
    (FRAME + FRAME[:-2], "record 1 at byte 19: cut payload or footer: expected 19 bytes, got "
     "17; 'shardfeed verify' lists all defects, 'shardfeed repair' saves what is sound"),
    (FRAME + b"\xff" + FRAME[1:], "record 1 at byte 19: length CRC expected 0xa6e21153, found "
     "0x0e4999b0 (length 255); 'shardfeed verify' lists all defects, 'shardfeed repair' saves what is "
     "sound"),
    (FRAME[:13] + b"X" + FRAME[14:], "record 0 at byte 0: payload CRC expected 0x5f488381, found "
     "0x21f1576e (length 3)"),
    (b"text, no records", "not a TFRecord file: starts with 74 65 78 74 2c 20 6e 6f, which is "
     "neither a record nor GZIP, ZLIB or SNAPPY"),
    (gzip.compress(FRAME * 3, mtime=0)[:-12], "GZIP data ends prematurely at byte 26: the file is "
     "truncated, or its writer was not closed")])
def test_tfrecord(tmp_path, content, message):
    refuse(tmp_path, "tfrecord", {"x": content}, ["x"], "IN/x: " + message)


@pytest.mark.parametrize("kind, name, content", [
    ("jsonl", "t.jsonl", b"{bad\n{worse\n"), ("csv", "t.csv", b"a,b\n1,2,3\n4\n"), ("text", "t.txt", b"\xff\n\xfe\n")])
def test_only_broken_records_are_told_as_such(tmp_path, kind, name, content):
    (tmp_path / name).write_bytes(content)
    done = harness.run("convert", kind, tmp_path / name, tmp_path / "out/t@1", "--on-error", "skip", "--max-skipped", "100%")
    assert done.status == DEFECTS and "no records: every one is broken (2), the first is " in done.err, done

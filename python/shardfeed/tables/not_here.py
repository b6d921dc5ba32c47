"""Options of the program's kinds that those of this package do not have, and what to do instead."""

from typing import Dict

_TFRECORD = "apply it to what was written: shardfeed convert tfrecord OUT@N OTHER@N"
_SPLITS = ("put the rows of each split into a source of their own, or split what was written by chance: shardfeed convert "
           "tfrecord OUT@N OTHER@N --split ...")
_TEXT = "it is for tables of text, csv and tsv: columns have types here"
_JPEGS = "bytes stay as they are; it is for images in files, such as shardfeed convert images"
_LABELS = "it is for shardfeed convert images; have the labels in a column of the source"


def _only(*kinds: str) -> str:
    return f"it is for shardfeed convert {' and '.join(kinds)}"


NOT_HERE: Dict[str, str] = {
    "--split": _TFRECORD + " --split ...",
    "--split-key": _SPLITS,
    "--split-column": _SPLITS,
    "--dedup": _TFRECORD + " --dedup",
    "--tfds": _TFRECORD + " --tfds",
    "--class-map": "have the numbers of the classes in the source",
    "--on-error": "what cannot be converted ends the conversion: mend in the source what the error names, or remove it there",
    "--max-skipped": "nothing is skipped",
    "--max-record": "no row is refused for its size; leave it out",
    "--dates": "dates are text; declare the kind int64 to have their numbers since 1970 (--schema)",
    "--na": "have nulls in the source for values that are missing",
    "--trim": "have the text in the source as it should be written",
    "--no-trim": "blanks are kept in any case; leave it out",
    **dict.fromkeys(("--decimal", "--delimiter", "--encoding", "--header", "--names", "--no-comments", "--no-header",
                     "--no-quotes", "--thousands"), _TEXT),
    **dict.fromkeys(("--jpeg", "--quality", "--resize-shorter"), _JPEGS),
    **dict.fromkeys(("--label-column", "--label-file"), _LABELS),
    "--images": _only("coco"),
    "--keep-json": _only("captions"),
    "--parse-json": _only("tar"),
    "--subset": _only("voc", "yolo"),
    "--variant": _only("cifar"),
    "--zero-based": _only("voc"),
}

"""The table of all workloads. A peer implements a workload by naming it."""

from typing import NamedTuple


class Workload(NamedTuple):
    name: str
    group: str  # each group has a chart
    title: str
    unit: str  # unit of the figures; see figure() in results.py
    data: str  # the kind of data whose files are read from the page cache
    cold: bool = False  # the files are dropped from the page cache instead
    used: bool = False  # the consumer copies each record, as into a batch
    threads: int = 2
    rate: float = 0  # elements per second that the consumer takes; 0 is unlimited
    length: int = 1  # length of a measurement, as a multiple of the usual one
    check: str = ""  # what outputs are compared with: records of that kind, or values of that name


SIZES = {"10k": "10 thousand", "1m": "1 million", "100m": "100 million"}

WORKLOADS = [
    Workload("read_large", "read", "Read images' records, 110 KB", "records/s", "large",
             check="records large"),
    Workload("read_large_used", "read", "The same, each copied by the consumer", "records/s", "large",
             used=True, check="records large"),
    Workload("read_small", "read", "Read small records, 230 B", "records/s", "small",
             check="records small"),
    Workload("read_large_gzip", "read", "Read images' records, GZIP", "records/s", "large_gzip",
             check="records large_gzip"),
    Workload("read_small_gzip", "read", "Read small records, GZIP", "records/s", "small_gzip",
             check="records small_gzip"),
    Workload("read_large_cold", "read", "Read images' records, not cached", "records/s", "large",
             cold=True, check="records large"),
    Workload("read_small_cold", "read", "Read small records, not cached", "records/s", "small",
             cold=True, check="records small"),
    Workload("verify_large", "read", "Verify all CRCs, 110 KB", "records/s", "large",
             check="count large"),
    Workload("verify_small", "read", "Verify all CRCs, 230 B", "records/s", "small",
             check="count small"),
    Workload("shuffle_large", "shuffle", "Shuffle, window of 1,000 records of 110 KB", "records/s",
             "large", check="shuffled large"),
    Workload("shuffle_small", "shuffle", "Shuffle, window of 100,000 records of 230 B", "records/s",
             "small", check="shuffled small"),
    Workload("exact_large", "shuffle", "Shuffle all exactly, 110 KB", "records/s", "large",
             check="shuffled large"),
    Workload("exact_small", "shuffle", "Shuffle all exactly, 230 B", "records/s", "small",
             check="shuffled small"),
    Workload("shuffle_large_cold", "shuffle", "Shuffle, window of 1,000, not cached", "records/s",
             "large", cold=True, check="shuffled large"),
    Workload("exact_large_cold", "shuffle", "Shuffle all exactly, not cached", "records/s", "large",
             cold=True, check="shuffled large"),
    Workload("get_large", "shuffle", "By number, 256 at a time, 110 KB", "records/s", "large",
             check="records large"),
    Workload("get_small", "shuffle", "By number, 256 at a time, 230 B", "records/s", "small",
             check="records small"),
    Workload("parse", "parse", "Parse 50 floats and a label, batches of 1,024", "records/s", "small",
             check="values parse"),
    Workload("tokens", "parse", "Parse token ids, padded batches of 64", "records/s", "tokens",
             check="values tokens"),
    Workload("image", "image", "JPEG to random crops of 224, plain bilinear", "images/s", "large",
             check="values image"),
    Workload("image_antialiased", "image", "JPEG to random crops of 224, antialiased", "images/s",
             "large", check="values image"),
    Workload("image_huge", "image", "12-megapixel images to random crops of 224", "images/s",
             "huge", check="values huge"),
    Workload("read_large_1_thread", "scaling", "Read images' records, one thread", "records/s", "large",
             threads=1, check="records large"),
    Workload("read_small_1_thread", "scaling", "Read small records, one thread", "records/s", "small",
             threads=1, check="records small"),
    Workload("parse_1_thread", "scaling", "Parse, one thread", "records/s", "small", threads=1,
             check="values parse"),
    Workload("image_1_thread", "scaling", "JPEG to random crops, plain, one thread", "images/s", "large",
             threads=1, check="values image"),
    Workload("image_paced", "cpu", "CPU for 1,000 images, consumer of 200 per second",
             "CPU s/1,000", "large", rate=200, length=5, check="values image"),  # read-ahead fills up first
    Workload("write_large", "write", "Write images' records", "records/s", "large",
             check="records large"),
    Workload("write_small", "write", "Write small records", "records/s", "small",
             check="records small"),
    Workload("write_small_gzip", "write", "Write small records, GZIP", "records/s", "small_gzip",
             check="records small_gzip"),
    Workload("convert_images", "write", "Folder of images to a dataset", "images/s", "images",
             check="count images"),
    Workload("convert_csv", "write", "CSV to Examples", "rows/s", "rows", check="count rows"),
    Workload("convert_jsonl", "write", "JSON lines to Examples", "rows/s", "rows", check="count rows"),
    Workload("first_batch", "latency", "First batch of a windowed shuffle", "ms", "small"),
    Workload("resume", "latency", "Resume after 10,000 batches of 16", "ms", "small", check="same"),
    Workload("mix_memory", "memory", "Memory to mix image records half as well as an exact shuffle",
             "MiB", "large"),
    *(Workload(f"open_{size}", "size", f"Open {count} records of 4 B, first 1,024 of a shuffle", "ms",
               f"numbers_{size}") for size, count in SIZES.items()),
    *(Workload(f"middle_{size}", "size", f"Resume in the middle of {count} records", "ms",
               f"numbers_{size}", check="same") for size, count in SIZES.items()),
    Workload("permute_10k", "size", "Begin an exact shuffle of 10 thousand", "ms", ""),
    Workload("permute_1m", "size", "Begin an exact shuffle of 1 million", "ms", ""),
    Workload("permute_100m", "size", "Begin an exact shuffle of 100 million", "ms", ""),
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}

# Workloads that run another workload's code with other settings.
SAME_CODE = {"read_large_used": "read_large", "read_large_cold": "read_large", "read_large_1_thread": "read_large",
             "read_small_1_thread": "read_small", "parse_1_thread": "parse", "image_1_thread": "image",
             "read_small_cold": "read_small", "shuffle_large_cold": "shuffle_large",
             "exact_large_cold": "exact_large"}

GROUPS = {
    "read": "Reading and verifying (2 threads, page cache unless stated)",
    "shuffle": "Shuffling and access by number",
    "parse": "Records to dense batches",
    "image": "Images to batches",
    "scaling": "One thread instead of two",
    "cpu": "CPU at a fixed rate (less is better)",
    "write": "Writing and converting",
    "latency": "Latency (less is better)",
    "memory": "Memory at equal quality of the shuffle (less is better)",
    "size": "Datasets of 10 thousand to 100 million records (less is better)",
}
LESS_IS_BETTER = {"ms", "CPU s/1,000", "MiB"}

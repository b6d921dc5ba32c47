"""Digests of what peers deliver from the same data: sums over records or columns."""

import zlib


class RecordDigest:
    """A digest of records in any order; only `order` depends on the order."""

    def __init__(self):
        self.records = self.bytes = self.sum = self.order = 0

    def add(self, records):
        for record in records:
            crc = zlib.crc32(record)
            self.records += 1
            self.bytes += len(record)
            self.sum += crc
            self.order = (self.order * 31 + crc) & 0xFFFFFFFFFFFF

    def result(self):
        return {"records": self.records, "bytes": self.bytes, "sum": self.sum,
                "order": self.order}


class ArrayDigest:
    """A digest of the values of named columns."""

    def __init__(self):
        self.columns = {}

    def add(self, columns):
        import numpy as np
        for name, values in columns.items():
            values = np.asarray(values)
            count, total, squares = self.columns.get(name, (0, 0.0, 0.0))
            exact = values.astype(np.float64)
            self.columns[name] = (count + values.size, total + float(exact.sum()),
                                  squares + float((exact * exact).sum()))

    def result(self):
        return {name: {"count": count, "mean": total / max(count, 1),
                       "deviation": max(squares / max(count, 1) - (total / max(count, 1)) ** 2, 0) ** 0.5}
                for name, (count, total, squares) in self.columns.items()}

"""Datasets as those of Hugging Face's library. It takes datasets and pyarrow."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .arguments import Size, checked
from .features import FeatureLike
from .splits import Split, arrow_schema, columns_of, splits

PathLike = Union[str, os.PathLike]
Columns = Union[Mapping[str, FeatureLike], Sequence[str], None]


def _tables(parts: List[Split], fields: Any, options: Dict[str, Any]) -> Iterator[Tuple[int, Any]]:
    import pyarrow as pa
    number = 0
    for split in parts:
        for batch in pa.RecordBatchReader.from_stream(split.batches(fields, **options)):
            yield number, pa.Table.from_batches([batch])
            number += 1


@checked
def load(spec: Union[PathLike, Sequence[PathLike]], columns: Columns = None, *,
         record: bool = False, n: Optional[Size] = None, **options: Any) -> Any:
    """Returns the dataset as a datasets.IterableDataset, whose shards are the splits of sf.splits
    (`n` as there): workers of a DataLoader and split_dataset_by_node divide these. `columns` and
    `record` are those of Split.arrow, other options those of sf.read. It has state_dict and
    load_state_dict."""
    import datasets
    from datasets.iterable_dataset import ArrowExamplesIterable
    specs = [os.fspath(s) for s in ([spec] if isinstance(spec, (str, os.PathLike)) else spec)]
    fields = columns_of(specs, columns, record)
    parts = splits(specs, n)
    features = datasets.Features.from_arrow_schema(arrow_schema(fields))
    return datasets.IterableDataset(
        ArrowExamplesIterable(_tables, {"parts": parts, "fields": fields, "options": options}),
        info=datasets.DatasetInfo(features=features))

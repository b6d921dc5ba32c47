"""Datasets as those of Hugging Face's library. Needs datasets and pyarrow."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .arguments import Size, checked, needs, specs_of
from .splits import Columns, Split, arrow_schema, check_options, columns_of, splits, tables_of

PathLike = Union[str, os.PathLike]


def _tables(parts: List[Split], fields: Any, options: Dict[str, Any]) -> Iterator[Tuple[int, Any]]:
    yield from enumerate(table for split in parts for table in tables_of(split, fields, options))


@checked
def load(spec: Union[PathLike, Sequence[PathLike]], columns: Columns = None, *,
         record: bool = False, n: Optional[Size] = None, bytes: Optional[Size] = None,
         **options: Any) -> Any:
    """Returns the dataset as a datasets.IterableDataset, whose shards are the splits of sf.splits
    (`n` and `bytes` as there): workers of a DataLoader and split_dataset_by_node divide these. `columns` and
    `record` are those of Split.arrow, other options those of sf.read. It has state_dict and
    load_state_dict."""
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise needs(error, "Hugging Face's library", "hf") from None
    from datasets.iterable_dataset import ArrowExamplesIterable
    check_options(options)
    specs = specs_of(spec)
    fields = columns_of(specs, columns, record, some=True)
    parts = splits(specs, n, bytes=bytes)
    features = datasets.Features.from_arrow_schema(arrow_schema(fields))
    return datasets.IterableDataset(
        ArrowExamplesIterable(_tables, {"parts": parts, "fields": fields, "options": options}),
        info=datasets.DatasetInfo(features=features))

"""--like: another dataset whose kinds are taken over, and with which a new one must agree. Messages are those of the
program (shard/declarations/named_manifest.cc)."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence

from . import Disagreement
from .table import damaged
from .values import Feature

_ENDING = ".manifest.json"
_KINDS = ("int64", "float", "bytes")


class Model(NamedTuple):
    """The dataset of --like, and how the one that shall agree with it is called."""

    name: str
    dataset: str
    compression: str
    records: int
    features: Mapping[str, Mapping[str, Any]]  # as manifests have them
    # Where checks put what they find instead of raising it, for a dry run, which shows everything nevertheless.
    found: Optional[List[str]] = None

    @property
    def kinds(self) -> Dict[str, str]:
        return {name: one["kind"] for name, one in self.features.items() if one.get("kind") in _KINDS}

    @property
    def digest(self) -> str:
        """Identifies what is taken over, for runs that are resumed."""
        return hashlib.sha256(json.dumps(self[2:5], sort_keys=True).encode()).hexdigest()

    def check_schema(self, schema: str, kinds: Mapping[str, str]) -> None:
        """Disagreement: a schema declares another kind than the model has."""
        for feature, kind in kinds.items():
            theirs = self.kinds.get(feature, kind)
            if theirs != kind:
                raise Disagreement(f"{schema}: {_quoted(feature)} is {kind}, but {theirs} in {self.name}; leave one of --schema "
                                 "and --like out")

    def _disagree(self, message: str) -> None:
        if self.found is None:
            raise Disagreement(message)
        self.found.append(message)

    def check_feature(self, name: str, feature: Feature) -> None:
        """Disagreement: a feature has another kind or another shape than in the model."""
        theirs = self.features.get(name)
        if theirs is None:
            return
        kind = self.kinds.get(name)
        if kind is not None and feature.kind not in (kind, "none"):
            self._disagree(f"{self.dataset}: the feature {_quoted(name)} is {feature.kind} here and {kind} in "
                           f"{self.name}; convert both alike")
        shape: Sequence[int] = theirs.get("shape", ())
        if feature.shape and shape and (len(shape) != len(feature.shape) or any(
                -1 not in sizes and sizes[0] != sizes[1] for sizes in zip(shape, feature.shape))):
            self._disagree(f"{self.dataset}: the feature {_quoted(name)} has the shape {list(feature.shape)} here and "
                           f"{list(shape)} in {self.name}; convert both alike")

    def check_known(self, name: str) -> None:
        """Disagreement: the model has no feature of this name, which has a value here."""
        if name not in self.features:
            self._disagree(f"{self.dataset}: has the feature {_quoted(name)}, which {self.name} does not have; leave it "
                           "out here, or convert both alike")

    def check_complete(self, here: Collection[str]) -> None:
        """Disagreement: a feature that all records of the model have is not here."""
        for name, one in self.features.items():
            if one.get("records", 0) >= self.records and name not in here:
                self._disagree(f"{self.dataset}: lacks the feature {_quoted(name)}, which all records of {self.name} "
                               "have; convert both alike")


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _manifest_of(name: str) -> str:
    """The path of the manifest of a folder/name, or of a manifest. Empty: it is named in another way."""
    if name.endswith(_ENDING):
        return name
    folder, stem = os.path.split(name)
    path = os.path.join(folder, ".shardfeed", stem + _ENDING)
    return path if "://" not in name and "@" not in stem and os.path.isfile(path) else ""


def manifest_of(name: str) -> str:
    """The path of the manifest of a dataset in a folder, which may not exist. Empty: `name` is none of one."""
    if "://" in name:
        return ""
    folder, stem = os.path.split(name)
    return _manifest_of(name) or os.path.join(folder, ".shardfeed", stem.partition("@")[0] + _ENDING)


def read_model(name: str, dataset: str) -> Model:
    """The dataset that is called `name`, as the program takes such names. Disagreement: it has no manifest."""
    from ..command import inspect
    path = _manifest_of(name)
    if path:
        with open(path, "rb") as file:
            text = file.read()
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise damaged(path, f"not a manifest: {error}") from None
        if not isinstance(found, dict) or not str(found.get("format", "")).startswith("shardfeed manifest"):
            raise damaged(path, "not a manifest")
    elif os.path.isfile(name):
        raise Disagreement(f"{name}: is not a dataset with a manifest; name one as folder/name@N")
    else:
        found = inspect(name, records=0).data
        if "made_by" not in found:
            raise Disagreement(f"{name}: the dataset has no manifest, so its classes and options are unknown")
    return Model(name, dataset, found.get("compression", "none"), found.get("records", 0), found.get("features", {}))

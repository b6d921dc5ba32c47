#!/usr/bin/env bash
# The PTX beside each .cu was made from that very source: the hashes in it say so.
set -euo pipefail
for ptx in "$@"; do
  hashes=$(sed -n 's/^\/\/ \([0-9a-f]\{64\}  .*\)/\1/p' "$ptx")
  [ -n "$hashes" ] || {
    echo "$ptx does not tell what it was made from" >&2
    exit 1
  }
  sha256sum --check <<< "$hashes" || {
    echo "$ptx is not of this source; run scripts/make_ptx" >&2
    exit 1
  }
done

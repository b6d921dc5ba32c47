#!/usr/bin/env bash
# Checks the hashes in the PTX beside each .cu: it was made from exactly that source.
set -euo pipefail
for ptx in "$@"; do
  hashes=$(sed -n 's/^\/\/ \([0-9a-f]\{64\}  .*\)/\1/p' "$ptx")
  [ -n "$hashes" ] || {
    echo "$ptx does not name its sources" >&2
    exit 1
  }
  sha256sum --check <<< "$hashes" || {
    echo "$ptx was made from another source; run scripts/make_ptx" >&2
    exit 1
  }
done

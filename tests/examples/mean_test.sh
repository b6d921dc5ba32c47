#!/usr/bin/env bash
# The example in C: all values come once, over two runs, and errors have a text.
set -eu
out=$TEST_TMPDIR/out
cli/shardfeed convert csv testdata/tables/cities.csv "$out/cities@2" -q
examples/c/mean "$out/cities@2" founded | tee "$out/mean"
grep -Eq ': [0-9]+ values, mean 1[0-9]{3}\.' "$out/mean"
! examples/c/mean "$out/nothing@2" founded 2> "$out/error"
grep -q "nothing@2" "$out/error"
! examples/c/mean "$out/cities@2" name 2> "$out/error"
grep -q "bytes" "$out/error"
! examples/c/mean

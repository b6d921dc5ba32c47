#!/usr/bin/env bash
# The example as its comment tells: it learns something, and does not mind what it is given.
set -eu
out=$TEST_TMPDIR/out
cli/shardfeed convert csv testdata/tables/cities.csv "$out/cities@2" -q
examples/linear_model "$out/cities@2"
! examples/linear_model "$out/nothing@2"
! examples/linear_model

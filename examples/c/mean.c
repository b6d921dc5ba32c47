/* Computes the mean of a column of numbers, over batches in random order. Stops halfway, saves its
 * state, and continues in a second run.
 *
 *   shardfeed convert csv cities.csv out/cities@2
 *   mean out/cities@2 founded
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shardfeed/shardfeed_c.h"

static int Fail(void) {
  fprintf(stderr, "mean: %s\n", shardfeed_last_error());
  return 1;
}

/* Sums the values of up to `most` batches. Returns 0 on failure. */
static int AddBatches(shardfeed_iterator* iterator, uint64_t most, double* sum, uint64_t* count) {
  for (uint64_t i = 0; i < most; ++i) {
    shardfeed_batch* batch = NULL;
    if (shardfeed_next(iterator, &batch) != SHARDFEED_OK) return 0;
    if (batch == NULL) return 1; /* the end */
    shardfeed_column column;
    if (shardfeed_batch_column(batch, 0, &column, sizeof(column)) != SHARDFEED_OK) {
      shardfeed_batch_free(batch);
      return 0;
    }
    const int64_t* values = column.values;
    for (uint64_t v = 0; v < column.num_values; ++v) *sum += (double)values[v];
    *count += column.num_values;
    shardfeed_batch_free(batch);
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: mean DATASET COLUMN\n");
    return 2;
  }
  /* Ragged, since cells of the table may be missing. */
  char schema[256];
  snprintf(schema, sizeof(schema), "%s: int64 ragged", argv[2]);

  int result = 1;
  shardfeed_dataset* dataset = NULL;
  shardfeed_iterator* first = NULL;
  shardfeed_iterator* second = NULL;
  char* state = NULL;
  uint64_t state_size = 0;
  double sum = 0;
  uint64_t count = 0;
  if (shardfeed_open(argv[1], &dataset) != SHARDFEED_OK ||
      shardfeed_shuffle(dataset, /*seed=*/1, /*window=*/0) != SHARDFEED_OK ||
      shardfeed_parse(dataset, schema) != SHARDFEED_OK ||
      shardfeed_make_batches(dataset, 4, /*drop_remainder=*/0) != SHARDFEED_OK ||
      shardfeed_start(dataset, NULL, &first) != SHARDFEED_OK ||
      !AddBatches(first, 2, &sum, &count) ||
      shardfeed_state(first, &state, &state_size) != SHARDFEED_OK) {
    Fail();
    goto end;
  }
  shardfeed_run_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.threads = 2;
  if (shardfeed_start(dataset, &options, &second) != SHARDFEED_OK ||
      shardfeed_load(second, state, state_size) != SHARDFEED_OK ||
      !AddBatches(second, UINT64_MAX, &sum, &count)) {
    Fail();
    goto end;
  }
  printf("shardfeed %s: %" PRIu64 " values, mean %.3f\n", shardfeed_version(), count,
         count > 0 ? sum / (double)count : 0);
  result = 0;

end:
  shardfeed_text_free(state);
  shardfeed_iterator_free(first);
  shardfeed_iterator_free(second);
  shardfeed_close(dataset);
  return result;
}

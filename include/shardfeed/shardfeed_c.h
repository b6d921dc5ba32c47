/* The C interface of shardfeed, for programs in C and bindings of other languages.
 *
 *   shardfeed_dataset* dataset = NULL;
 *   shardfeed_iterator* iterator = NULL;
 *   shardfeed_batch* batch = NULL;
 *   if (shardfeed_open("train@64", &dataset) != SHARDFEED_OK ||
 *       shardfeed_shuffle(dataset, 1, 0) != SHARDFEED_OK ||
 *       shardfeed_parse(dataset, "x: float32 [50], y: int64") != SHARDFEED_OK ||
 *       shardfeed_make_batches(dataset, 1024, 0) != SHARDFEED_OK ||
 *       shardfeed_start(dataset, NULL, &iterator) != SHARDFEED_OK) {
 *     puts(shardfeed_last_error());
 *   }
 *   while (shardfeed_next(iterator, &batch) == SHARDFEED_OK && batch != NULL) {
 *     ...
 *     shardfeed_batch_free(batch);
 *   }
 *
 * Functions that can fail return a code, SHARDFEED_OK on success; the text of the calling thread's
 * last failure is shardfeed_last_error(). No C++ exception leaves a function. Handles are opaque
 * and belong to the caller, who frees each once; freeing NULL does nothing. All sizes and counts
 * are uint64_t.
 *
 * Threads: different handles may be used by different threads at once. One handle is used by one
 * thread at a time, except shardfeed_cancel, which any thread may call, and a batch, which any
 * number of threads may read.
 *
 * Binary interface: functions, codes and the order of the members of structures stay within a major
 * version (docs/stability.md). Structures may grow at their end, so callers pass their size. */

#ifndef SHARDFEED_SHARDFEED_C_H_
#define SHARDFEED_SHARDFEED_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return: the codes of absl::Status. */
enum {
  SHARDFEED_OK = 0,
  SHARDFEED_CANCELLED = 1, /* shardfeed_cancel was called */
  SHARDFEED_UNKNOWN = 2,
  SHARDFEED_INVALID_ARGUMENT = 3, /* a wrong argument, or a record that does not fit the schema */
  SHARDFEED_NOT_FOUND = 5,        /* there is no such dataset */
  SHARDFEED_ALREADY_EXISTS = 6,
  SHARDFEED_PERMISSION_DENIED = 7,
  SHARDFEED_RESOURCE_EXHAUSTED = 8,  /* memory or file descriptors ran out */
  SHARDFEED_FAILED_PRECONDITION = 9, /* such as a state of other data */
  SHARDFEED_ABORTED = 10,            /* the dataset was replaced meanwhile */
  SHARDFEED_OUT_OF_RANGE = 11,
  SHARDFEED_UNIMPLEMENTED = 12,
  SHARDFEED_INTERNAL = 13,
  SHARDFEED_UNAVAILABLE = 14,
  SHARDFEED_DATA_LOSS = 15 /* damaged data; the text names shard, record and byte */
};

/* Types of values. */
enum {
  SHARDFEED_UINT8 = 0,
  SHARDFEED_INT8 = 1,
  SHARDFEED_UINT16 = 2,
  SHARDFEED_INT16 = 3,
  SHARDFEED_INT32 = 4,
  SHARDFEED_INT64 = 5,
  SHARDFEED_FLOAT16 = 6,
  SHARDFEED_BFLOAT16 = 7,
  SHARDFEED_FLOAT32 = 8,
  SHARDFEED_FLOAT64 = 9,
  SHARDFEED_BYTES = 10 /* values are shardfeed_bytes */
};

typedef struct shardfeed_dataset shardfeed_dataset;
typedef struct shardfeed_iterator shardfeed_iterator;
typedef struct shardfeed_batch shardfeed_batch;

/* A string of bytes, without a terminating zero. Borrowed from its batch. */
typedef struct shardfeed_bytes {
  const char* data;
  uint64_t size;
} shardfeed_bytes;

/* A column of a batch. All pointers are borrowed from the batch. */
typedef struct shardfeed_column {
  const char* name;     /* ends with a zero */
  uint32_t dtype;       /* SHARDFEED_UINT8 ... */
  uint32_t ragged;      /* 1: rows have any number of elements */
  uint64_t num_dims;    /* of a row; of a ragged column, of an element of a row */
  const int64_t* shape; /* num_dims sizes */
  /* The values of all rows, in C order, with no gaps. Aligned for their type. */
  const void* values;
  uint64_t num_values;
  /* Ragged: rows + 1 numbers, the first of which is 0; row r has the elements splits[r] to
   * splits[r + 1] - 1. Otherwise NULL. */
  const int64_t* splits;
} shardfeed_column;

/* Options of a run; zero stands for the default of each. */
typedef struct shardfeed_run_options {
  uint64_t size;         /* sizeof(shardfeed_run_options); the only one that has no default */
  uint64_t threads;      /* at most; default: one for each processor */
  uint64_t budget_bytes; /* held ahead of the consumer; default: by the memory that is free */
  uint64_t epoch;        /* the first epoch */
} shardfeed_run_options;

/* The version of the library: "MAJOR.MINOR.PATCH". */
const char* shardfeed_version(void);
/* What the calling thread's last failing call reported; "" if none failed. Valid until this
 * thread's next failing call. */
const char* shardfeed_last_error(void);

/* ---- Datasets. Each function but open and close appends a step; after a failure the dataset is as
 * it was before. */

/* The records of the shards that `spec` names (docs/specs.md), as one column "record" of bytes. */
int shardfeed_open(const char* spec, shardfeed_dataset** dataset);
void shardfeed_close(shardfeed_dataset* dataset);

/* Shuffles each epoch anew, within a window of records; 0: a default. Directly after open,
 * UINT64_MAX is the exact permutation of the whole epoch. */
int shardfeed_shuffle(shardfeed_dataset* dataset, uint64_t seed, uint64_t window);
/* The order of tf.data's interleave over the shards. Directly after open. */
int shardfeed_interleave(shardfeed_dataset* dataset, uint64_t cycle, uint64_t block);
/* The part of rank `rank` of `world`. */
int shardfeed_shard(shardfeed_dataset* dataset, uint64_t rank, uint64_t world);
/* Repeats; 0 epochs: without end. */
int shardfeed_repeat(shardfeed_dataset* dataset, uint64_t epochs);
/* Parses tf.train.Example records. `schema` lists the columns, separated by commas:
 *
 *   NAME: TYPE [SIZES]         rows of one shape; without [SIZES], one value
 *   NAME: TYPE ragged [SIZES]  rows of any number of elements; SIZES are those of an element
 *
 * such as "x: float32 [50], tokens: int64 ragged, image: bytes". Types: uint8, int8,
 * uint16, int16, int32, int64, float16, bfloat16, float32, float64, bytes. Names have no colon and
 * no comma. NULL: all features of the dataset. */
int shardfeed_parse(shardfeed_dataset* dataset, const char* schema);
/* Batches of `rows` rows; the last one is smaller, or left out if `drop_remainder` is not 0.
 * Without this step, each batch has a single row. */
int shardfeed_make_batches(shardfeed_dataset* dataset, uint64_t rows, int drop_remainder);

/* ---- Runs */

/* Starts a run; `options` may be NULL. The dataset may be closed while the run goes on. */
int shardfeed_start(const shardfeed_dataset* dataset, const shardfeed_run_options* options,
                    shardfeed_iterator** iterator);
/* Ends the run. Batches that are out stay valid. */
void shardfeed_iterator_free(shardfeed_iterator* iterator);
/* The next batch, which the caller frees; NULL at the end. After an error each further call returns
 * it again. */
int shardfeed_next(shardfeed_iterator* iterator, shardfeed_batch** batch);
/* Where the run is, in batches delivered: a JSON document of `size` bytes and a terminating zero,
 * freed by shardfeed_text_free. */
int shardfeed_state(const shardfeed_iterator* iterator, char** text, uint64_t* size);
void shardfeed_text_free(char* text);
/* Goes to a saved place of a run of the same dataset and steps. */
int shardfeed_load(shardfeed_iterator* iterator, const char* text, uint64_t size);
/* Makes shardfeed_next, now or when it is called next, return SHARDFEED_CANCELLED. */
void shardfeed_cancel(shardfeed_iterator* iterator);

/* ---- Batches */

void shardfeed_batch_free(shardfeed_batch* batch);
uint64_t shardfeed_batch_rows(const shardfeed_batch* batch);
uint64_t shardfeed_batch_columns(const shardfeed_batch* batch);
/* Fills in the first `size` bytes of *column; pass sizeof(shardfeed_column). */
int shardfeed_batch_column(const shardfeed_batch* batch, uint64_t number, shardfeed_column* column,
                           uint64_t size);

#ifdef __cplusplus
}
#endif

#endif /* SHARDFEED_SHARDFEED_C_H_ */

// What the TensorFlow op library calls of penstock. It does not link it: Python hands it this table, made by the one binding module of the
// process (bindings/tf_abi.cc), by penstock_tf_bind. Plain C, since the two are compiled with different flags.
//
// Threads: all functions may be called on any thread, and none takes the GIL. One iteration is used by one thread at a time.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_ABI_VERSION 2u

// What a function that can fail returns: 0, one of these, or a code of absl::StatusCode.
#define PENSTOCK_WAITING (-1)  // nothing within the time; nothing is lost
#define PENSTOCK_ENDED (-2)    // the iteration has no more elements

typedef struct PenstockJob PenstockJob;              // what iterations of one dataset read
typedef struct PenstockIteration PenstockIteration;  // one pass over it
typedef struct PenstockRun PenstockRun;              // memory that rows lie in; counted

// Where a function puts a text: a message of an error, a state.
typedef struct PenstockText {
  void (*set)(void* to, const char* data, uint64_t size);
  void* to;
} PenstockText;

typedef struct PenstockBuffer {
  const void* data;
  uint64_t size;  // bytes
} PenstockBuffer;

// One leaf of the rows. Buffers: int64 offsets of each ragged dimension from the outside in, one more for strings, then the values.
typedef struct PenstockColumn {
  const int64_t* shape;  // of a row; -1: ragged
  uint64_t rank;
  uint64_t value_size;  // bytes of a value; 0: strings
  const PenstockBuffer* buffers;
  uint64_t buffer_count;
} PenstockColumn;

// An element: rows [first, end) of a run, as they lie there.
typedef struct PenstockElement {
  PenstockRun* run;  // borrowed until the next call: `keep` it for longer
  const PenstockColumn* columns;
  uint64_t column_count;
  uint64_t first;
  uint64_t end;
  int32_t batched;  // 1: rows are the outermost dimension; 0: the element is the one row
} PenstockElement;

typedef struct PenstockAbi {
  uint32_t version;
  uint32_t size;  // of this table

  // NULL where nobody has offered a job of this name in this process.
  PenstockJob* (*find)(const char* name, uint64_t size);
  void (*release)(PenstockJob* job);

  // Does not wait: `next` joins and starts the epoch.
  PenstockIteration* (*begin)(PenstockJob* job);
  int32_t (*next)(PenstockIteration* iteration, int64_t wait_ms, PenstockElement* element, PenstockText error);
  // The state after the last element that `next` gave, or why there is none.
  int32_t (*save)(PenstockIteration* iteration, PenstockText text);
  // Before the first `next`: goes on after that state.
  int32_t (*restore)(PenstockIteration* iteration, const char* state, uint64_t size, PenstockText error);
  void (*end)(PenstockIteration* iteration);

  void (*keep)(PenstockRun* run);
  void (*drop)(PenstockRun* run);

  // Copies, and is the CRC-32C of what `before` is that of and of this. whole: bytes of the block that it is part of.
  uint32_t (*copy)(const void* from, void* to, uint64_t size, uint32_t before, uint64_t whole);
} PenstockAbi;

#ifdef __cplusplus
}
#endif

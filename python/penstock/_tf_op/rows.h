// Rows that an executor takes of a tf.data iterator: the plain C that Python calls (penstock/_executor/tf_rows.py has the same layout).
#pragma once

#include <stdint.h>

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time.
typedef struct PenstockRows {
  int64_t id;  // the op's input

  // How far the op goes: up to so many rows; it stops after one by which it has so many bytes, or the time is over.
  uint64_t want_rows;
  uint64_t want_bytes;
  int64_t want_ns;

  // Rows that wait, and what they take in a block.
  uint64_t count;
  uint64_t bytes;
  uint64_t ended;  // 1: the iterator has no more
} PenstockRows;

// Before all others. The table lives as long as the process. 0: it is of another version.
int penstock_tf_rows_bind(const PenstockAbi* abi);

// components: of each of the block's columns, which component of the element it is. Lives until penstock_tf_rows_drop.
PenstockRows* penstock_tf_rows_make(const int64_t* components, uint64_t columns);
void penstock_tf_rows_drop(PenstockRows* rows);
// How many of the first rows take no more than `room` bytes.
uint64_t penstock_tf_rows_within(const PenstockRows* rows, uint64_t room);
// Of the buffers of the first `n` rows: of each column offsets, where it has any, and values.
void penstock_tf_rows_lengths(const PenstockRows* rows, uint64_t n, uint64_t* lengths);
// Copies the first `n` rows, and forgets them. places: offset in `block` and length of each buffer; crcs: CRC-32C of each. 0: the lengths are
// others than those told.
int penstock_tf_rows_write(PenstockRows* rows, uint64_t n, char* block, const uint64_t* places, uint64_t buffers, uint32_t* crcs);

#ifdef __cplusplus
}
#endif

/* buckets.h: values on their way to places all over a large tensor, put apart by where they go.
 *
 * Written one by one, each of them waits for a line of memory that no near cache holds. Put into buckets first, each of
 * which is for a stretch of memory that a cache does hold, they are written there as they came. Threads share both:
 * each fills buckets from a part of the values, and then empties some of the buckets, part after part. So values that
 * meet in a place keep their order, whatever the number of threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_BUCKET_BLOCK = 512 }; /* values that lie together */

typedef struct tide__buckets tide__buckets;

/* For places of 0 .. span - 1, at most 2^32 of them, of elements of `bytes` bytes, and `parts` parts of at most `most`
 * values. A value has `item` bytes, 4 or 8; with 0 all are the same one, and only places are kept. NULL: no memory. */
tide__buckets *tide__buckets_open(int64_t parts, int64_t most, int64_t span, int bytes, int item);
void tide__buckets_close(tide__buckets *b);
int64_t tide__buckets_count(const tide__buckets *b);
/* Adds n values, `step` values apart, to a part: value i goes to place[i] + shift, as far as no place[i] - base is
 * beyond `last`. Returns how many that were. */
int64_t tide__buckets_add(tide__buckets *b, int64_t part, const int64_t *place, int64_t base, uint64_t last,
                          int64_t shift, const char *values, int64_t step, int64_t n);

/* Where a walk through a bucket is. It begins with {0}. */
typedef struct tide__bucket_walk {
  int64_t part;
  const char *block;
} tide__bucket_walk;
/* The next places and their values; how many, at most TIDE_BUCKET_BLOCK. 0: there are no more. */
int64_t tide__buckets_next(const tide__buckets *b, int64_t bucket, tide__bucket_walk *walk, int64_t *place,
                           void *values);

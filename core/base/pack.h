/* pack.h: many pieces of memory copied by one launch. Clean for C and CUDA. */
#pragma once

#include "plan.h"

enum { TIDE_PACK_PIECES = 128 }; /* of one launch: what fits into a kernel's arguments */

typedef struct tide_pack_piece {
  void *to;
  const void *from; /* either may be memory of a peer whose way is open */
  uint64_t bytes;   /* more than 0 */
} tide_pack_piece;

/* The first n pieces, which do not overlap. head.ptr is not used. */
typedef struct tide_pack_args {
  tide_head head;
  int32_t n;
  tide_pack_piece piece[TIDE_PACK_PIECES];
} tide_pack_args;

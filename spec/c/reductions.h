/* reductions.h: what core hands to a backend for each reduction, from the rules of reduction.def. It converts the
 * others first. */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool reduction_takes(int op, char kind) {
  static const char *const kinds[] = {
#define TAKES_SUM      "BUIFC"
#define TAKES_SUM_REAL "BUIF"
#define TAKES_MEAN     "FC"
#define TAKES_SIZE     "F"
#define TAKES_SPREAD   "F"
#define TAKES_FLOAT    "F"
#define TAKES_CHOICE   "BUIF"
#define TAKES_PLACE    "BUIF"
#define TAKES_TRUTH    "BUIF"
#define TAKES_COUNT    "BUIF"

#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) [TIDE_##NAME] = TAKES_##rule,
#include "tide/reduction.def"
  };
  return strchr(kinds[op], kind) != NULL;
}

/* op.h: the table of elementwise ops, as core reads it. Private to core. */
#pragma once

#include "tide/tide.h"

typedef enum tide__rule {
  TIDE_RULE_FLOAT,
  TIDE_RULE_FLOATC,
  TIDE_RULE_MATHC,
  TIDE_RULE_EXACT,
  TIDE_RULE_REAL,
  TIDE_RULE_DIVIDE,
  TIDE_RULE_REALC,
  TIDE_RULE_ARITHC,
  TIDE_RULE_TEST,
  TIDE_RULE_COMPARE,
  TIDE_RULE_EQUALC,
  TIDE_RULE_CLOSE,
  TIDE_RULE_LOGIC,
  TIDE_RULE_BITS
} tide__rule;

#define TIDE_SLOW 255 /* in tide__rule_result: ask tide__op_types */
typedef struct tide__op_traits {
  uint8_t rule, operands, params, divides; /* divides: integers by the second operand */
} tide__op_traits;
const tide__op_traits *tide__op_traits_get(tide_op op);
/* The result dtype when all operands have one dtype that is computed in its own compute dtype; or TIDE_SLOW. */
extern const uint8_t tide__rule_result[][TIDE_DTYPE_COUNT];

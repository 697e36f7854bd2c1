/* isa_table.h: template of a whole table, TIDE_ISA_NAME, compiled with the instruction set that vector.h has chosen. */
#include "vector.h"

#include "backend/cpu/jit/blocks.h"

#include "base/pairs.h"
#include "backend/cpu/loops/loops.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/reduce/fold.h"
#include "backend/cpu/random/draw.h"
#include "backend/cpu/product/product.h"
#include "backend/cpu/loops/powers.h"

static tide__loop op_loops[TIDE_OP_COUNT][TIDE_CTYPES], streamed_loops[TIDE_OP_COUNT];
static tide__convert converts[TIDE_DTYPE_COUNT][TIDE_DTYPE_COUNT];

static void fill(void) {
#define TIDE_EACH_OP(name, rule, loop, expr, doc)                                                                      \
  LOOP_ROW(op_loops, name, rule, loop) LOOP_STREAMED(streamed_loops, name, loop)
#include "tide/op.def"
  CONVERT_FILL
  TIDE_JOIN(tide__lanes_fill, TIDE_ISA_NAME)();
}

const tide__isa TIDE_JOIN(tide__isa, TIDE_ISA_NAME) = {
    .name = TIDE_ISA_TEXT,
    .fill = fill,
    .op = op_loops,
    .streamed = streamed_loops,
    .convert = converts,
    FOLD_TABLE,
    .pair =
        {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) FOLD_PAIR_SLOT(NAME, name, fold)
#include "tide/reduction.def"
        },
    DRAW_TABLE,
    PRODUCT_TABLE,
    POWER_TABLE,
    REPEAT_TABLE,
    .lanes = &TIDE_JOIN(tide__lanes, TIDE_ISA_NAME),
};

#if defined(__clang__) && defined(TIDE_TARGET)
#  pragma clang attribute pop
#endif

/* byte_ops.h: loops over elements of one byte. */
#pragma once

#include "backend/cpu/isa.h"

/* The loop of an op whose operands are all of this dtype, bool, uint8 or int8; NULL where it needs more than their
 * bytes. Results that are tests are 0 and 1, others of the dtype too. */
tide__loop tide__byte_loop(int op, int dtype);

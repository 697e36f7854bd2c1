/* row_ops.h: softmax, its logarithm and logsumexp of very short lines of float32. */
#pragma once

#include "backend/cpu/isa.h"

enum { TIDE__SHORT_LINE = 32 };
typedef enum tide__lines_form { TIDE__LINES_SOFTMAX, TIDE__LINES_LOG_SOFTMAX, TIDE__LINES_LOGSUMEXP } tide__lines_form;

/* Lines of n numbers, 1 to TIDE__SHORT_LINE, one behind the other; out holds as many, or of logsumexp a number for each
 * line, and may be in itself. */
void tide__short_lines(const tide__isa *isa, tide__lines_form form, float *out, const float *in, int64_t n,
                       int64_t lines);

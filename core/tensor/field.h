/* field.h: what the operations on fields share. Private to tensor. */
#pragma once

#include "base/mathematics/field.h"
#include "tensor.h"
#include "tide/field.h"

/* result, of x's dtype and dims, takes its elements from x by a's rule, scale, before and bits of each of these dims;
 * the rest of a is set here. */
tide_status tide__place(const tide_tensor *result, const tide_tensor *x, tide_pad_args *a);

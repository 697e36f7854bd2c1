/* tide/abi.h: what a built libtide holds its structs, enums and functions to be, for what declares them otherwise than
 * by including these headers for the same build: a binding through an FFI, or a module that is shipped alone. */
#ifndef TIDE_ABI_H
#define TIDE_ABI_H

#include "tide/tide.h"

TIDE_C_BEGIN

#define TIDE_ABI 1 /* another one: what was built before cannot be used */

/* A word made of a name, and what there is to compare: a struct and its size, a field and its offset in bytes, a header
 * and a word made of its text. */
typedef struct tide_abi_mark {
  uint16_t name, value;
} tide_abi_mark;

/* TIDE_ABI of the library, and its marks, in an order that the headers decide: each struct with its fields, then the
 * headers. Two builds of the same headers for one system have the same marks. They live as long as the process. */
TIDE_API int tide_abi(const tide_abi_mark **marks, size_t *count);

TIDE_C_END
#endif

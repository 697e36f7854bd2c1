/* try.h: the way out of a function whose call, or whose argument, was wrong. Private to core. */
#pragma once

#include "tide/tide.h"

/* Returns from the enclosing function when the expression fails. */
#define TIDE_TRY(expr)                                                                                                 \
  do {                                                                                                                 \
    tide_status try_status_ = (expr);                                                                                  \
    if (try_status_ != TIDE_OK) return try_status_;                                                                    \
  } while (0)

/* TIDE_SIZED: struct_size, which is at the end of the first version of the struct, is 0 or holds that version. */
tide_status tide__struct_check(const char *what, size_t given, size_t least);
#define TIDE_SIZED(what, s)                                                                                            \
  do {                                                                                                                 \
    if (__builtin_expect((s)->struct_size != sizeof *(s) && (s)->struct_size, 0))                                      \
      TIDE_TRY(tide__struct_check(what, (s)->struct_size, offsetof(__typeof__(*(s)), struct_size) + sizeof(size_t)));  \
  } while (0)
/* What a host may have got wrong, checked where a public function begins: ARGUMENT, with the name of the argument.
 * TIDE_GIVEN: a pointer is not NULL. TIDE_LIST: n is not negative, and there is a list unless n is 0. TIDE_RANGE: an
 * enum, or an index, is one of `count`. */
tide_status tide__fail_null(const char *what, const char *name);
tide_status tide__fail_list(const char *what, const char *name, int64_t n);
tide_status tide__fail_range(const char *what, const char *name, int value, int count);
#define TIDE_GIVEN(what, argument)                                                                                     \
  do {                                                                                                                 \
    if (__builtin_expect(!(argument), 0)) return tide__fail_null(what, #argument);                                     \
  } while (0)
#define TIDE_LIST(what, list, n)                                                                                       \
  do {                                                                                                                 \
    if (__builtin_expect((n) < 0 || ((n) && !(list)), 0)) return tide__fail_list(what, #list, n);                      \
  } while (0)
#define TIDE_RANGE(what, value, count)                                                                                 \
  do {                                                                                                                 \
    if (__builtin_expect((unsigned)(value) >= (unsigned)(count), 0))                                                   \
      return tide__fail_range(what, #value, (int)(value), (int)(count));                                               \
  } while (0)

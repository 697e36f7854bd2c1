/* try.h: the way out of a function whose call has failed. Private to core. */
#ifndef TIDE_TRY_H
#define TIDE_TRY_H

#include "tide/tide.h"

/* Returns from the enclosing function when the expression fails. */
#define TIDE_TRY(expr)                                                                                                 \
  do {                                                                                                                 \
    tide_status try_status_ = (expr);                                                                                  \
    if (try_status_ != TIDE_OK) return try_status_;                                                                    \
  } while (0)

#endif

/* likely.h: what a branch most often does. Private to core. */
#pragma once

#define TIDE_LIKELY(x)   __builtin_expect(!!(x), 1)
#define TIDE_UNLIKELY(x) __builtin_expect(!!(x), 0)

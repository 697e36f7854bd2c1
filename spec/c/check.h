/* check.h: how the C tests check: what fails is printed with its place and counted, and the test goes on. Included once
 * by each of them. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tide/tide.h"

#ifdef _WIN32
static inline int setenv(const char *name, const char *value, int replace) {
  return replace || !getenv(name) ? _putenv_s(name, value) : 0;
}
static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }
#endif

static _Atomic int failures; /* threads may check too */
#define CHECK(cond)                                                                                                    \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #cond);                                                                \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    if ((expr) != TIDE_OK) {                                                                                           \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #expr, tide_error_get()->message);                                 \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

/* The call fails with this: its kind, ": ", its whole message. */
#define REFUSES(text, call) refuses(text, (call), __FILE__, __LINE__)
static inline void refuses(const char *expected, tide_status status, const char *file, int line) {
  char got[512];
  snprintf(got, sizeof got, "%s: %s", tide_status_kind(status), status == TIDE_OK ? "" : tide_error_get()->message);
  if (!strcmp(got, expected)) return;
  printf("%s:%d: got \"%s\", expected \"%s\"\n", file, line, got, expected);
  failures++;
}

/* A vector of n times this float32 value. */
static inline tide_tensor *full(int device, int64_t n, double value) {
  tide_tensor *x = NULL;
  const tide_options options = {TIDE_FLOAT32, device, false};
  OK(tide_full(&x, &n, 1, tide_float(value), &options));
  return x;
}

/* A sleep that holds a stream of a simulated device until tide_sim_wake(). */
#define HOLD ((int64_t)3600 * 1000000000)

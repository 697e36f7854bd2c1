/* status.c: how failures are told.
 *
 * Each thread has one error record. A function that fails fills it and returns the status, so a failure costs nothing
 * until it happens and no caller has to free anything. The message is written to a buffer on the stack first, because
 * an argument of the message may be the message before it.
 *
 * Invariant: the record's strings point into the thread's own buffers, so they stay valid until its next failing call,
 * whatever happens to the device, the stream or the tensor that was concerned. */
#include "base.h"
#include "tide/debug.h"
#include "tide/memory.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_SIZE = 1792, RING = 8, RING_TEXT = 288 };

static _Thread_local struct {
  tide_error error;
  char message[TIDE__MESSAGE_MOST];
  char name[64];
} last = {.error = {.status = TIDE_OK, .message = "", .device = TIDE_CPU, .name = ""}};

static _Thread_local struct {
  char text[RING][RING_TEXT];
  unsigned next;
} ring;

const tide_error *tide_error_get(void) { return &last.error; }

const char *tide_status_kind(tide_status status) {
  static const char *const kinds[] = {
#define STATUS(code, kind, text) #kind,
#include "tide/status.def"
#undef STATUS
  };
  return (unsigned)status < sizeof kinds / sizeof *kinds ? kinds[status] : "Unknown";
}

tide_status tide__error_set(const tide_error *error, const char *message, const char *name) {
  char copy[sizeof last.name];
  snprintf(copy, sizeof copy, "%s", name);
  last.error = *error;
  memcpy(last.name, copy, sizeof copy);
  memcpy(last.message, message, strlen(message) + 1);
  last.error.message = last.message;
  last.error.name = last.name;
  return error->status;
}

tide_status tide__fail(tide_status status, const char *format, ...) {
  char text[MESSAGE_SIZE];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return tide__error_set(&(tide_error){.status = status, .device = TIDE_CPU}, text, "");
}

tide_status tide_error_set(tide_status status, const char *message) {
  return tide__fail(status, "%s", message ? message : "");
}

/* ---- arguments ---- */

tide_status tide__fail_null(const char *what, const char *name) {
  return tide__fail(TIDE_ARGUMENT, "%s: %s is missing, got NULL, expected a pointer", what, name);
}

tide_status tide__fail_list(const char *what, const char *name, int64_t n) {
  if (n > 0) return tide__fail_null(what, name);
  return tide__fail(TIDE_ARGUMENT, "%s: %s has a negative length, got %lld, expected at least 0", what, name,
                    (long long)n);
}

tide_status tide__struct_check(const char *what, size_t given, size_t least) {
  if (given >= least && given <= 65536) return TIDE_OK;
  return tide__fail(TIDE_ARGUMENT, "%s: struct_size is wrong, got %zu, expected the struct's sizeof, at least %zu",
                    what, given, least);
}

tide_status tide__fail_range(const char *what, const char *name, int value, int count) {
  return tide__fail(TIDE_ARGUMENT, "%s: unknown %s, got %d, expected 0 to %d", what, name, value, count - 1);
}

/* What every call says once a device is lost: nothing is formatted. The error may be the thread's own. */
tide_status tide__fail_again(const tide_error *error) {
  const char *message = error->message, *name = error->name ? error->name : "";
  size_t length = strnlen(message, sizeof last.message - 1), name_length = strnlen(name, sizeof last.name - 1);
  memmove(last.message, message, length);
  memmove(last.name, name, name_length);
  last.message[length] = 0, last.name[name_length] = 0;
  last.error = *error;
  last.error.message = last.message, last.error.name = last.name;
  return last.error.status;
}

tide_status tide__fail_memory(int device, size_t requested, size_t free, size_t total, size_t allocated,
                              size_t reserved, const char *format, ...) {
  char text[MESSAGE_SIZE];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  tide_error error = {.status = TIDE_MEMORY, .device = device, .requested = requested, .free = free, .total = total};
  error.allocated = allocated, error.reserved = reserved;
  return tide__error_set(&error, text, "");
}

static tide_status fail_place(tide_error *error, const char *where, int64_t value, int64_t length) {
  char text[MESSAGE_SIZE];
  const char *at = where[0] ? " at " : "";
  if (length == 0)
    snprintf(text, sizeof text, "kernel: index out of range%s%s, got %lld, but the dimension is empty", at, where,
             (long long)value);
  else
    snprintf(text, sizeof text, "kernel: index out of range%s%s, got %lld, expected 1 to %lld", at, where,
             (long long)value, (long long)length);
  return tide__error_set(error, text, "");
}

static tide_status fail_zero(tide_error *error, const char *where, int64_t value, bool step) {
  char text[MESSAGE_SIZE], got[64] = "a step of 0";
  if (!step) snprintf(got, sizeof got, "%lld divided by 0", (long long)value);
  error->status = TIDE_VALUE;
  snprintf(text, sizeof text, "kernel: %s%s%s, got %s, expected another number",
           step ? "'for' step is zero" : "integers cannot be divided by zero", where[0] ? " at " : "", where, got);
  return tide__error_set(error, text, "");
}

static tide_status fail_stopped(tide_error *error, const char *where, int64_t ms) {
  char text[MESSAGE_SIZE];
  error->status = TIDE_QUOTA;
  snprintf(text, sizeof text, "kernel: stopped after %lld ms%s%s, expected it to end before: the host allows no more",
           (long long)ms, where[0] ? " at " : "", where);
  return tide__error_set(error, text, "");
}

static tide_status fail_apart(tide_error *error, const char *where) {
  char text[MESSAGE_SIZE];
  error->status = TIDE_VALUE;
  snprintf(
      text, sizeof text,
      "kernel: some threads of a block came to a barrier or a sum of the block and others did not%s%s, expected all "
      "of them",
      where[0] ? " at " : "", where);
  return tide__error_set(error, text, "");
}

tide_status tide__fail_index(int device, uint32_t site, int64_t value, int64_t length, int index_base) {
  char where[160];
  tide__site_text(site, where, sizeof where);
  tide_error error = {.status = TIDE_INDEX, .device = device};
  char text[MESSAGE_SIZE];
  if (index_base == TIDE__MAIL_PLACE) return fail_place(&error, where, value, length);
  if (index_base == TIDE__MAIL_ZERO) return fail_zero(&error, where, value, length == 1);
  if (index_base == TIDE__MAIL_STOPPED) return fail_stopped(&error, where, value);
  if (index_base == TIDE__MAIL_APART) return fail_apart(&error, where);
  if (length <= TIDE_VERIFY_NONZERO && length >= TIDE_VERIFY_RATE) {
    double chance;
    memcpy(&chance, &value, sizeof chance);
    error.status = TIDE_VALUE;
    if (length == TIDE_VERIFY_NONZERO)
      snprintf(text, sizeof text,
               "integers cannot be divided by zero, got a tensor with divisor 0%s%s, expected others",
               where[0] ? " at " : "", where);
    else
      snprintf(text, sizeof text, "%s%s%s, got %g, expected %s",
               length == TIDE_VERIFY_RATE ? "random: wrong rate or deviation" : "bernoulli: wrong probability",
               where[0] ? " in a tensor used at " : " in a tensor", where, chance,
               length == TIDE_VERIFY_RATE ? "a finite number, at least 0" : "0 to 1");
    return tide__error_set(&error, text, "");
  }
  long long first = index_base, last_one = (long long)length - 1 + index_base;
  if (length == 0)
    snprintf(text, sizeof text, "index: value out of range%s%s, got %lld, but the dimension is empty",
             where[0] ? " in an index tensor used at " : " in an index tensor", where, (long long)value);
  else
    snprintf(text, sizeof text, "index: value out of range%s%s, got %lld, expected %lld to %lld or %lld to -1%s",
             where[0] ? " in an index tensor used at " : " in an index tensor", where, (long long)value, first,
             last_one, -(long long)length, value < first && !value ? "; indexes count from 1" : "");
  return tide__error_set(&error, text, "");
}

/* ---- where indexes count from ---- */

static _Thread_local tide_index_base_fn index_base;

void tide_index_base_set(tide_index_base_fn fn) { index_base = fn; }
tide_index_base_fn tide__index_base_get(void) { return index_base; }
int tide_get_index_base(void) { return index_base ? index_base() : 0; }

/* ---- text for messages ---- */

static char *ring_text(void) { return ring.text[ring.next++ % RING]; }

const char *tide__shape_text(const int64_t *size, int ndim) {
  char *text = ring_text();
  size_t at = 0;
  text[at++] = '[';
  for (int d = 0; d < ndim && at < RING_TEXT; d++) {
    int n = snprintf(text + at, RING_TEXT - at, "%s%lld", d ? ", " : "", (long long)size[d]);
    at += (size_t)n;
  }
  if (at > RING_TEXT - 2) at = RING_TEXT - 2;
  text[at] = ']', text[at + 1] = 0;
  return text;
}

const char *tide__device_text(int device) {
  if (device == TIDE_CPU) return "cpu";
  if (device == TIDE_CURRENT) return "cuda";
  char *text = ring_text();
  snprintf(text, RING_TEXT, "cuda:%d", device);
  return text;
}

const char *tide_bytes_text(char out[TIDE_BYTES_TEXT], uint64_t bytes) {
  if (!out) return NULL;
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int u = 0;
  while (value >= 1024 && u < 4) value /= 1024, u++;
  if (u)
    snprintf(out, TIDE_BYTES_TEXT, "%.2f %s", value, units[u]);
  else
    snprintf(out, TIDE_BYTES_TEXT, "%d bytes", (int)bytes);
  return out;
}

/* values_test.c: values as bytes: what is written is read again, tensors share their storages, and no cut or changed
 * byte does more than fail. */
#include "tide/values.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "os/file.h"

enum { LENGTH = 2000 }; /* a storage that is large enough to be aligned */

/* A table with a number, a text and two tensors on one storage. */
static void write_all(FILE *file, tide_tensor *x, tide_tensor *part) {
  tide_values *v = NULL;
  int error = -1;
  const tide_saved list[] = {{.kind = TIDE_SAVED_TABLE},
                             {.kind = TIDE_SAVED_TEXT, .text = "key", .length = 3},
                             {.kind = TIDE_SAVED_NUMBER, .number = 2.5},
                             {.kind = TIDE_SAVED_INTEGER, .integer = -7},
                             {.kind = TIDE_SAVED_TENSOR, .tensor = x},
                             {.kind = TIDE_SAVED_BOOLEAN, .integer = 1},
                             {.kind = TIDE_SAVED_TENSOR, .tensor = part},
                             {.kind = TIDE_SAVED_DTYPE, .integer = TIDE_FLOAT16},
                             {.kind = TIDE_SAVED_REFERENCE, .integer = 2},
                             {.kind = TIDE_SAVED_NIL}};
  OK(tide_values_write(&v, &(tide_values_config){.what = "test", .file = file}));
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) OK(tide_values_put(v, &list[i]));
  OK(tide_values_flush(v, &error));
  CHECK(error == 0);
  tide_values_free(v);
}

static tide_saved next(tide_values *v) {
  tide_saved s = {.kind = TIDE_SAVED_NIL};
  OK(tide_values_get(&s, v));
  return s;
}

static void read_all(FILE *file, int device) {
  tide_values *v = NULL;
  float value[3] = {0};
  OK(tide_values_read(&v, &(tide_values_config){.what = "test", .file = file, .name = "bytes"}));
  CHECK(next(v).kind == TIDE_SAVED_TABLE);
  tide_saved s = next(v);
  CHECK(s.kind == TIDE_SAVED_TEXT && s.length == 3 && !memcmp(s.text, "key", 3));
  CHECK(next(v).number == 2.5 && next(v).integer == -7);
  s = next(v);
  CHECK(s.kind == TIDE_SAVED_PLACE && !strcmp(s.text, "cpu"));
  CHECK(tide_values_get(&s, v) == TIDE_STATE); /* it waits for a device */
  OK(tide_values_place(v, device));
  s = next(v);
  CHECK(s.kind == TIDE_SAVED_TENSOR && tide_tensor_numel(s.tensor) == LENGTH && tide_tensor_device(s.tensor) == device);
  tide_tensor *x = s.tensor;
  tide_tensor_retain(x);
  CHECK(next(v).kind == TIDE_SAVED_BOOLEAN);
  s = next(v);
  CHECK(s.kind == TIDE_SAVED_TENSOR && tide_tensor_storage(s.tensor) == tide_tensor_storage(x));
  OK(tide_read(value, s.tensor));
  CHECK(value[0] == 3 && value[2] == 3 && tide_tensor_offset(s.tensor) == 5);
  tide_tensor_release(x);
  CHECK(next(v).integer == TIDE_FLOAT16 && next(v).integer == 2 && next(v).kind == TIDE_SAVED_NIL);
  CHECK(tide_values_get(&s, v) == TIDE_FILE && strstr(tide_error_get()->message, "they end too early"));
  tide_values_free(v);
}

static FILE *stream_of(const char *bytes, size_t n) {
  FILE *file = tide__os_temporary();
  CHECK(file && fwrite(bytes, 1, n, file) == n);
  rewind(file);
  return file;
}

/* Reads until something fails or there is no more. */
static void read_any(const char *bytes, size_t n) {
  FILE *file = stream_of(bytes, n);
  tide_values *v = NULL;
  tide_saved s;
  if (tide_values_read(&v, &(tide_values_config){.what = "test", .file = file, .name = "bytes"}) == TIDE_OK)
    while (tide_values_get(&s, v) == TIDE_OK)
      if (s.kind == TIDE_SAVED_PLACE) OK(tide_values_place(v, TIDE_CPU));
  tide_values_free(v);
  fclose(file);
}

static bool still_open(void *user) { return *(int *)user > 0 && (*(int *)user)--; }

int main(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 1};
  OK(tide_init(&config));
  tide__os_text text = {0};
  CHECK(tide__os_text_begin(&text));
  tide_tensor *x = full(TIDE_CPU, LENGTH, 3), *part = NULL;
  OK(tide_narrow(&part, x, 0, 5, 3));
  write_all(NULL, x, part); /* only looked at */
  write_all(text.stream, x, part);
  CHECK(tide__os_text_end(&text));
  char *bytes = text.at;
  size_t size = text.bytes;
  for (int device = TIDE_CPU; device < 1; device++) {
    FILE *again = stream_of(bytes, size);
    read_all(again, device);
    fclose(again);
  }
  for (size_t n = 1; n < size; n += n < 300 ? 1 : 997) read_any(bytes, n);
  for (size_t at = 0; at < 300; at++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[at] ^= (char)(1 << bit);
      read_any(bytes, size);
      bytes[at] ^= (char)(1 << bit);
    }
  int calls = 2; /* the file is open twice, then closed */
  tide_values *v = NULL;
  CHECK(tide_values_write(&v, &(tide_values_config){.what = "test", .is_open = still_open, .user = &calls}) == TIDE_OK);
  CHECK(tide_values_put(v, &(tide_saved){.kind = TIDE_SAVED_NIL}) == TIDE_STATE);
  tide_values_free(v);
  free(bytes);
  tide_tensor_release(x), tide_tensor_release(part);
  tide_shutdown();
  printf("values_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}

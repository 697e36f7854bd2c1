/* The marks of the public headers: what a program of the same build has compiled, and nothing else. */
#include <string.h>

#include <tide_headers.inc>

#include "check.h"

static const struct {
  const char *what;
  tide_abi_mark mark;
} here[] = {
#define ABI_STRUCT(type, word)       {#type, {word, sizeof(type)}},
#define ABI_FIELD(type, field, word) {#type "." #field, {word, offsetof(type, field)}},
#define ABI_TEXT(file, word, value)  {file, {word, value}},
#include <tide_marks.inc>
};

static bool has(const char *what) {
  for (size_t i = 0; i < sizeof here / sizeof *here; i++)
    if (!strcmp(here[i].what, what)) return true;
  return false;
}

int main(void) {
  const tide_abi_mark *marks = NULL;
  size_t count = 0;
  CHECK(tide_abi(&marks, &count) == TIDE_ABI);
  CHECK(count == sizeof here / sizeof *here);
  CHECK(!memcmp(&here[0].mark, marks, sizeof *marks) && marks[count - 1].name == here[count - 1].mark.name);
  for (size_t i = 0; i < count; i++) CHECK(!memcmp(&here[i].mark, &marks[i], sizeof *marks));
  /* Lists of fields on one line, arrays, pointers to functions, and a field that ends a list over two lines. */
  CHECK(has("tide_error.allocated") && has("tide_device_props.uuid") && has("tide_config.parallel_for"));
  CHECK(has("tide_memory_stats.inactive_split_bytes") && has("tide_values_config.is_open") && has("op.def"));
  CHECK(!has("tide_config.n") && !has("tide_config.align"));
  printf("%s: %d failures\n", __FILE__, failures);
  return failures != 0;
}

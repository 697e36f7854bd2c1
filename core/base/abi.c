/* abi.c: marks of the public headers (tide_marks.cmake makes the lists of both files while tide is built). */
#include <tide_headers.inc>

static const tide_abi_mark marks[] = {
#define ABI_STRUCT(type, word)       {word, sizeof(type)},
#define ABI_FIELD(type, field, word) {word, offsetof(type, field)},
#define ABI_TEXT(file, word, value)  {word, value},
#include <tide_marks.inc>
};

int tide_abi(const tide_abi_mark **out, size_t *count) {
  if (out) *out = marks;
  if (count) *count = sizeof marks / sizeof *marks;
  return TIDE_ABI;
}

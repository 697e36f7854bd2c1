/* types.c: the types of a raw kernel's parameters: how large, and which tensors and numbers they take.
 *
 * Types are read as text, since the source is only compiled for the device. A pointer to a type that is not known here
 * takes any tensor, as a pointer to void does; a value of an unknown type cannot be packed and is refused.
 *
 * Invariant: sizes are those of CUDA on 64-bit Linux, which are the host's too. */
#include "jit/jit.h"

#include <stdio.h>

typedef enum shape { INTEGER, UNSIGNED, FLOAT, BOOLEAN, ONLY_POINTER } shape;

#define BIT(dtype) (1u << TIDE_##dtype)
#define ANY        ((1u << TIDE_DTYPE_COUNT) - 1)

/* Aligned to their size, but for those of three. */
static const struct {
  const char *names; /* of integers those that whole_name gives them */
  shape shape;
  int bytes;
  uint32_t tensors;
} types[] = {
    {"bool", BOOLEAN, 1, BIT(BOOL)},
    {"char", INTEGER, 1, BIT(INT8) | BIT(UINT8) | BIT(BOOL)},
    {"signed char|int8_t", INTEGER, 1, BIT(INT8)},
    {"unsigned char|uint8_t", UNSIGNED, 1, BIT(UINT8) | BIT(BOOL)},
    {"short|int16_t", INTEGER, 2, BIT(INT16)},
    {"unsigned short|uint16_t", UNSIGNED, 2, BIT(INT16) | BIT(FLOAT16) | BIT(BFLOAT16)},
    {"int|int32_t", INTEGER, 4, BIT(INT32)},
    {"unsigned|uint32_t", UNSIGNED, 4, BIT(INT32)},
    {"long|long long|int64_t|ptrdiff_t", INTEGER, 8, BIT(INT64)},
    {"unsigned long|unsigned long long|uint64_t|size_t", UNSIGNED, 8, BIT(INT64)},
    {"float", FLOAT, 4, BIT(FLOAT32)},
    {"double", FLOAT, 8, BIT(FLOAT64)},
    {"half|__half", ONLY_POINTER, 2, BIT(FLOAT16)},
    {"half2|__half2", ONLY_POINTER, 4, BIT(FLOAT16)},
    {"nv_bfloat16|__nv_bfloat16", ONLY_POINTER, 2, BIT(BFLOAT16)},
    {"__nv_bfloat162", ONLY_POINTER, 4, BIT(BFLOAT16)},
    {"float2", ONLY_POINTER, 8, BIT(FLOAT32) | BIT(COMPLEX64)},
    {"float3", ONLY_POINTER, 12, BIT(FLOAT32)},
    {"float4", ONLY_POINTER, 16, BIT(FLOAT32) | BIT(COMPLEX64)},
    {"double2", ONLY_POINTER, 16, BIT(FLOAT64) | BIT(COMPLEX128)},
    {"int2|uint2", ONLY_POINTER, 8, BIT(INT32)},
    {"int3", ONLY_POINTER, 12, BIT(INT32)},
    {"int4", ONLY_POINTER, 16, BIT(INT32)},
    {"uint4", ONLY_POINTER, 16, ANY},
    {"uchar4", ONLY_POINTER, 4, BIT(UINT8)},
    {"cuFloatComplex|cuComplex", ONLY_POINTER, 8, BIT(COMPLEX64)},
    {"cuDoubleComplex", ONLY_POINTER, 16, BIT(COMPLEX128)},
};

static bool is_one_of(const char *name, const char *names) {
  size_t n = strlen(name);
  for (const char *p = n ? strstr(names, name) : NULL; p; p = strstr(p + n, name))
    if ((p == names || p[-1] == '|') && (!p[n] || p[n] == '|')) return true;
  return false;
}

/* The type without const, volatile, struct and std::, up to the first star; read_only: a const stands before it. */
static bool bare(char *out, size_t size, const char *type, bool *read_only, int *stars) {
  size_t at = 0;
  out[0] = 0;
  *read_only = false, *stars = 0;
  for (const char *p = type; *p;) {
    size_t n = strcspn(p, " *");
    if (*p == '*') ++*stars;
    bool skipped = n == 0 || *stars || (n == 8 && !memcmp(p, "volatile", 8)) || (n == 6 && !memcmp(p, "struct", 6));
    if (n == 5 && !memcmp(p, "const", 5)) {
      if (!*stars) *read_only = true;
      skipped = true;
    }
    if (!skipped) {
      const char *word = n > 5 && !memcmp(p, "std::", 5) ? p + 5 : p;
      int wrote = snprintf(out + at, size - at, "%s%.*s", at ? " " : "", (int)(n - (size_t)(word - p)), word);
      if (wrote < 0 || (size_t)wrote >= size - at) return false;
      at += (size_t)wrote;
    }
    p += n ? n : 1;
  }
  return true;
}

/* The integers of C++ have many names, the words of which stand in any order: "long unsigned int". Each becomes the
 * shortest; what is no such name stays as it is. */
static void whole_name(char *name, size_t size) {
  static const char *const words[] = {"signed", "unsigned", "char", "short", "int", "long"};
  enum { SIGNED, UNSIGNED_WORD, CHAR, SHORT, INT, LONG, WORDS };
  int count[WORDS] = {0};
  for (const char *p = name; *p;) {
    size_t n = strcspn(p, " ");
    int i = 0;
    while (i < WORDS && (strlen(words[i]) != n || memcmp(words[i], p, n) != 0)) i++;
    if (i == WORDS) return;
    count[i]++;
    p += n + (p[n] == ' ');
  }
  const char *core = count[CHAR] ? "char" : count[SHORT] ? "short" : count[LONG] > 1 ? "long long" : "long";
  bool plain = !count[CHAR] && !count[SHORT] && !count[LONG];
  if (plain && count[UNSIGNED_WORD])
    snprintf(name, size, "unsigned");
  else
    snprintf(name, size, "%s%s",
             count[UNSIGNED_WORD]           ? "unsigned "
             : count[SIGNED] && count[CHAR] ? "signed "
                                            : "",
             plain ? "int" : core);
}

bool tide__param_read(tide_raw_kernel_param *out, const char *type) {
  char name[TIDE_JIT_TYPE];
  bool read_only;
  int stars;
  if (strchr(type, '&') || !bare(name, sizeof name, type, &read_only, &stars)) return false;
  if (name[0]) whole_name(name, sizeof name);
  size_t i = 0, n = sizeof types / sizeof *types;
  while (i < n && !is_one_of(name, types[i].names)) i++;
  *out = (tide_raw_kernel_param){.type = type};
  if (stars) {
    out->kind = TIDE_PARAM_POINTER, out->bytes = 8;
    out->read_only = read_only && stars == 1;
    out->accepted = i < n && stars == 1 ? types[i].tensors : ANY;
    out->align = i == n || stars > 1 ? 1 : types[i].bytes == 12 ? 4 : types[i].bytes;
    return true;
  }
  if (i == n || types[i].shape == ONLY_POINTER) return false;
  out->kind = types[i].shape == FLOAT     ? TIDE_PARAM_FLOAT
              : types[i].shape == BOOLEAN ? TIDE_PARAM_BOOL
                                          : TIDE_PARAM_INTEGER;
  out->bytes = types[i].bytes;
  out->is_unsigned = types[i].shape == UNSIGNED;
  return true;
}

void tide__param_range(int64_t *low, int64_t *high, const tide_raw_kernel_param *p) {
  int bits = 8 * p->bytes;
  *low = p->is_unsigned ? 0 : bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
  *high = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - !p->is_unsigned)) - 1;
}

bool tide__scalar_whole(int64_t *out, const tide_scalar *s) {
  *out = s->i;
  if (s->kind != 'F') return s->kind == 'I';
  bool whole = s->re >= -9223372036854775808.0 && s->re < 9223372036854775808.0 && s->re == (double)(int64_t)s->re;
  *out = whole ? (int64_t)s->re : 0;
  return whole;
}

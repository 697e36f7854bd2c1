/* dtype.c: what the twelve dtypes are called, how they combine, and which may be written to which.
 *
 * Everything comes from dtype.def. Promotion is torch's for tensors with dimensions: the higher category wins (bool,
 * integer, floating, complex); within a category the wider; uint8 with a signed integer of its width needs the next
 * wider signed one; float16 with bfloat16 meet in float32; a complex result is wide enough for the real operand.
 * Casting of results is torch's too: never down a category, whatever the widths. */
#include "base.h"

typedef struct info {
  const char *name, *alias;
  uint8_t size;
  char kind;
} info;

static const info table[TIDE_DTYPE_COUNT] = {
#define DTYPE(name, NAME, type, bytes, kind, alias) {#name, #alias, bytes, #kind[0]},
#include "tide/dtype.def"
#undef DTYPE
};

static _Atomic int default_dtype = TIDE_FLOAT32;

static bool valid(tide_dtype dtype) { return dtype >= 0 && dtype < TIDE_DTYPE_COUNT; }

const char *tide_dtype_name(tide_dtype dtype) { return valid(dtype) ? table[dtype].name : "none"; }
size_t tide_dtype_size(tide_dtype dtype) { return valid(dtype) ? table[dtype].size : 0; }
char tide_dtype_kind(tide_dtype dtype) { return valid(dtype) ? table[dtype].kind : '\0'; }

bool tide_dtype_parse(tide_dtype *out, const char *name) {
  if (!name) return false;
  for (int i = 0; i < TIDE_DTYPE_COUNT; i++) {
    if (strcmp(name, table[i].name) && strcmp(name, table[i].alias)) continue;
    *out = (tide_dtype)i;
    return true;
  }
  return false;
}

/* bool 0, integers 1, floating 2, complex 3. */
static int category(tide_dtype dtype) {
  char kind = table[dtype].kind;
  return kind == 'B' ? 0 : kind == 'F' ? 2 : kind == 'C' ? 3 : 1;
}

static tide_dtype promote_integers(tide_dtype a, tide_dtype b) {
  if (a == TIDE_UINT8 && b == TIDE_INT8) return TIDE_INT16;
  return table[b].size > table[a].size || a == TIDE_UINT8 ? b : a;
}

tide_dtype tide_dtype_promote(tide_dtype a, tide_dtype b) {
  if (!valid(a) || !valid(b)) return TIDE_DTYPE_NONE;
  /* The order of the enum is that of the categories, so a is the lower one from here on. */
  if (a > b) {
    tide_dtype swap = a;
    a = b, b = swap;
  }
  int low = category(a), high = category(b);
  if (low != high) return high == 3 && a == TIDE_FLOAT64 ? TIDE_COMPLEX128 : b;
  if (high == 1) return promote_integers(a, b);
  return a == TIDE_FLOAT16 && b == TIDE_BFLOAT16 ? TIDE_FLOAT32 : b;
}

bool tide_dtype_can_cast(tide_dtype from, tide_dtype to) {
  if (!valid(from) || !valid(to)) return false;
  return category(from) <= category(to);
}

tide_status tide_set_default_dtype(tide_dtype dtype) {
  if (!valid(dtype) || table[dtype].kind != 'F')
    return tide__fail(TIDE_DTYPE, "set_default_dtype: wrong dtype, got %s, expected a floating dtype",
                      tide_dtype_name(dtype));
  atomic_store_explicit(&default_dtype, dtype, memory_order_relaxed);
  return TIDE_OK;
}

tide_dtype tide_get_default_dtype(void) {
  return (tide_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed);
}

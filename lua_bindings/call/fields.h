/* fields.h: structs of core's as tables, and values of core's that a function owns while it runs. */
#pragma once

#include "each.h"
#include "tide/memory.h"

/* Where a member lies and what it is, under its key in the table. Lists end with {0}. */
typedef struct ltide_field {
  const char *key;
  char kind;
  unsigned short at;
} ltide_field;
/* clang-format off */
#define LTIDE_FIELD(type, member) {#member, LTIDE_FIELD_KIND(&((type *)0)->member), offsetof(type, member)}
#define LTIDE_FIELD_KIND(p) _Generic(p, int *: 'i', bool *: 'b', double *: 'd', int64_t *: 'l', uint64_t *: 'l',       \
  const char **: 's', tide_stat *: 'S', tide_stat(*)[TIDE_POOL_COUNT]: 'P', tide_duration_stat *: 'D',                 \
  default: 't') /* an array that holds a text */
/* A list of members under their own names, up to 24. */
#define LTIDE_FIELDS(type, ...) {LTIDE_EACH(LTIDE_FIELD, type, __VA_ARGS__) {0}}
/* clang-format on */

/* Sets the fields of the struct in the table at the top. A part that has parts is "key.part" each, or a table where
 * `nested`. Allocates nothing where the keys are there already. */
void ltide_set_fields(lua_State *L, const ltide_field *fields, const void *data, bool nested);
/* Pushes the member of that key, which has no parts; false, and pushes nothing: there is none, or no list. */
bool ltide_push_field(lua_State *L, const ltide_field *fields, const void *data, const char *key);

/* The object of the device, one in each Lua state. */
void ltide_push_device(lua_State *L, int device);
/* Pushes a handle of what `release` lets go of, empty yet; the other one is closed with the running function. */
void **ltide_new_owned(lua_State *L, void (*release)(void *));
static inline void **ltide_push_owned(lua_State *L, void (*release)(void *)) {
  void **value = ltide_new_owned(L, release);
  lua_toclose(L, -1);
  return value;
}

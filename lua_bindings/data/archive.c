/* archive.c: arrays in files that other programs read and write: .npy, .npz, safetensors, plain values. Core reads and
 * writes them; here names become keys.
 *
 * Invariant: the tensors and texts that core is given live until the call has ended, whatever becomes of the table that
 * held them. */
#include "tide/archive.h"

#include <limits.h>

#include "call/fields.h"
#include "tensor/tensor.h"
#include "tide/file.h"

/* {==== Reading */

/* The tensor of the handle at the top goes to the device that was asked for. */
static void move(lua_State *L, ltide_tensor *u, const ltide_value *device) {
  if (!device->given || device->device == TIDE_CPU) return;
  const tide_options o = {TIDE_DTYPE_NONE, device->device, false};
  tide_tensor *there;
  ltide_try(L, tide_to(&there, u->t, &o, false, false));
  tide_tensor_release(u->t);
  u->t = there;
}

static int lload_npy(lua_State *L, ltide_call *c) {
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_npy_load(&u->t, c->v[0].text));
  move(L, u, &c->v[1]);
  ltide_made(L, c->S);
  return 1;
}

static void free_archive(void *archive) { tide_archive_free(archive); }

static int64_t find_name(const tide_archive *a, const char *name) {
  int64_t i = tide_archive_count(a) - 1;
  while (i >= 0 && strcmp(tide_archive_name(a, i), name) != 0) i--;
  return i;
}

/* Sets the array in the table at the top. */
static void get_one(lua_State *L, const ltide_call *c, tide_archive *a, int64_t i) {
  lua_pushstring(L, tide_archive_name(a, i));
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_archive_tensor(&u->t, a, i));
  move(L, u, &c->v[1]);
  lua_rawset(L, -3);
}

/* __index of a table of arrays: raises for a member that could not be read. The upvalue has their messages. */
static int refuse_foreign(lua_State *L) {
  lua_settop(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL) return 1;
  return ltide_error(L, "FileError", "%s", lua_tostring(L, -1));
}

/* Sets all arrays in the table at the top, but for the members that tide has no form for: they raise when the table is
 * asked for them, or here where there are no others. */
static void get_all(lua_State *L, const ltide_call *c, tide_archive *a) {
  int table = lua_gettop(L);
  int64_t last = -1, foreign = 0, count = tide_archive_count(a);
  lua_newtable(L);
  for (int64_t i = 0; i < count; i++, lua_settop(L, table + 1)) {
    lua_pushstring(L, tide_archive_name(a, i));
    ltide_tensor *u = ltide_new_tensor(L, c->S);
    tide_status status = tide_archive_tensor(&u->t, a, i);
    if (status != TIDE_OK && tide_archive_is_foreign(a, i)) {
      lua_pushstring(L, tide_error_get()->message);
      lua_replace(L, -2);
      lua_rawset(L, table + 1);
      last = i, foreign++;
      continue;
    }
    ltide_try(L, status);
    move(L, u, &c->v[1]);
    lua_rawset(L, table);
  }
  if (foreign && foreign == count) ltide_try(L, tide_archive_tensor(&(tide_tensor *){NULL}, a, last));
  if (foreign) {
    lua_pushcclosure(L, refuse_foreign, 1);
    lua_createtable(L, 0, 1);
    lua_insert(L, -2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, table);
  }
  lua_settop(L, table);
}

/* Sets those that the list at `names` has. */
static void get_named(lua_State *L, const ltide_call *c, tide_archive *a, int names) {
  int n = ltide_check_list(L, names, INT_MAX, "names", "names");
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, names, k);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    int64_t i = name ? find_name(a, name) : -1;
    if (i < 0)
      ltide_fail(L, name ? "ValueError" : "ArgumentError", "names[%I]: got %s, expected the name of an array in %s", k,
                 ltide_typename(L, -1), c->v[0].text);
    lua_pop(L, 1);
    get_one(L, c, a, i);
  }
}

static int lload_archive(lua_State *L, ltide_call *c) {
  tide_archive_kind kind = (tide_archive_kind)c->row->tag;
  tide_archive **a = (tide_archive **)ltide_push_owned(L, free_archive);
  ltide_try(L, tide_archive_open(a, kind, c->v[0].text, kind == TIDE_NPZ ? c->v[3].i : 0));
  lua_newtable(L);
  ltide_enter_again(L);
  if (c->v[2].given)
    get_named(L, c, *a, c->v[2].at);
  else
    get_all(L, c, *a);
  ltide_made(L, c->S);
  if (kind == TIDE_NPZ) return 1;
  lua_newtable(L);
  for (int64_t i = 0; i < tide_archive_notes(*a); i++) {
    const char *value;
    lua_pushstring(L, tide_archive_note(&value, *a, i));
    lua_pushstring(L, value);
    lua_rawset(L, -3);
  }
  return 2;
}

/* The names in the order of the file and, of safetensors, {name = dtype as the file names it}. */
static int lnames(lua_State *L, ltide_call *c) {
  tide_archive_kind kind = (tide_archive_kind)c->row->tag;
  tide_archive **a = (tide_archive **)ltide_push_owned(L, free_archive);
  ltide_try(L, tide_archive_open(a, kind, c->v[0].text, 0));
  lua_newtable(L);
  lua_newtable(L);
  for (int64_t i = 0; i < tide_archive_count(*a); i++) {
    lua_pushstring(L, tide_archive_name(*a, i));
    lua_pushvalue(L, -1);
    lua_rawseti(L, -4, i + 1);
    lua_pushstring(L, tide_archive_dtype(*a, i));
    lua_rawset(L, -3);
  }
  if (kind == TIDE_SAFETENSORS) return 2;
  return lua_pop(L, 1), 1;
}

static int lfrom_file(lua_State *L, ltide_call *c) {
  const ltide_value *size = &c->v[1];
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  return ltide_give_tensors(
      L, c->S, tide_from_file(&u->t, c->v[0].text, size->sizes, size->n, c->v[3].i, c->v[4].boolean, c->v[2].dtype), 1);
}

/* {==== Writing */

static int lsave_npy(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  return ltide_done(L, tide_npy_save(path, ltide_check_tensor(L, S, 2, "x")));
}

/* The pairs of the table at arg; pushes what keeps the texts alive. */
typedef struct pairs {
  int64_t n;
  const char **key, **value;
  tide_tensor **tensor;
} pairs;

/* The text at the top, popped, which the table below it keeps. */
static const char *keep_text(lua_State *L, const char *what, const char *expected) {
  const char *text = ltide_check_cstring(L, lua_gettop(L), what, expected);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  return text;
}

/* The key at -2, where the place in the list's part stands for NumPy's name. A copy, since lua_next needs its own. */
static const char *keep_key(lua_State *L, int kept, const char *what, bool numbers) {
  lua_pushvalue(L, kept);
  lua_pushvalue(L, -3);
  if (numbers && lua_isinteger(L, -1) && lua_tointeger(L, -1) > 0) {
    lua_pushfstring(L, "arr_%I", lua_tointeger(L, -1) - 1);
    lua_replace(L, -2);
  }
  const char *text = keep_text(L, what, "names as keys");
  lua_pop(L, 1);
  return text;
}

/* Reads a table of tensors, or where `texts`, of strings. */
static pairs read_pairs(lua_State *L, ltide_state *S, int arg, const char *what, bool texts, bool numbers) {
  pairs p = {0};
  int64_t room = 0;
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, what, texts ? "a table {key = text}" : "a table {name = Tensor}");
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) room++;
  p.key = lua_newuserdatauv(L, (size_t)(2 * room + 1) * sizeof *p.key, 0);
  p.value = p.key + room, p.tensor = (tide_tensor **)p.value;
  lua_newtable(L);
  int kept = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, arg) && p.n < room; lua_pop(L, 1), p.n++) {
    p.key[p.n] = keep_key(L, kept, what, numbers);
    if (texts) {
      lua_pushvalue(L, kept);
      lua_pushvalue(L, -2);
      p.value[p.n] = keep_text(L, what, "texts as values");
      lua_pop(L, 1);
      continue;
    }
    p.tensor[p.n] = ltide_check_tensor(L, S, lua_gettop(L), p.key[p.n]);
    ltide_hold_tensor(L, S, p.tensor[p.n]);
  }
  lua_settop(L, kept);
  ltide_enter_again(L);
  return p;
}

static const char *begin_save(lua_State *L, const char *const *keys) {
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  ltide_no_options(L, 3);
  lua_settop(L, 3);
  if (!lua_isnil(L, 3)) {
    if (!lua_istable(L, 3)) ltide_arg_error(L, 3, "options", "a table of options or nothing");
    ltide_check_keys(L, 3, keys);
  }
  return path;
}

static int save(lua_State *L, ltide_state *S, tide_archive_kind kind, const char *path,
                const tide_archive_content *content) {
  tide_status status = tide_archive_save(kind, path, content);
  ltide_made(L, S);
  return ltide_done(L, status);
}

static int lsave_npz(lua_State *L) {
  static const char *const keys[] = {"compressed", NULL};
  ltide_state *S = ltide_enter(L);
  const char *path = begin_save(L, keys);
  pairs p = read_pairs(L, S, 2, "tensors", false, true);
  bool compressed = !lua_isnil(L, 3) && ltide_opt_boolean(L, 3, "compressed", false);
  return save(L, S, TIDE_NPZ, path,
              &(tide_archive_content){.count = p.n, .name = p.key, .tensor = p.tensor, .compressed = compressed});
}

static int lsave_safetensors(lua_State *L) {
  static const char *const keys[] = {"metadata", NULL};
  ltide_state *S = ltide_enter(L);
  const char *path = begin_save(L, keys);
  pairs p = read_pairs(L, S, 2, "tensors", false, false), notes = {0};
  if (lua_istable(L, 3) && ltide_rawfield(L, 3, "metadata") != LUA_TNIL)
    notes = read_pairs(L, S, lua_gettop(L), "metadata", true, false);
  return save(L, S, TIDE_SAFETENSORS, path,
              &(tide_archive_content){p.n, notes.n, p.key, p.tensor, notes.key, notes.value, false});
}

#define NOUN archive
#include "call/api/open_noun.def"

/* library.c: tide.ffi, the functions of libtide for scripts, through LuaJIT's FFI (library.lua).
 *
 * What the FFI is told of them comes from the public headers while tide is built (cdef.lua). libtide itself says what
 * it was built with (tide/abi.h): all of it is compared with this module when it is loaded, and what LuaJIT has made of
 * the declarations when a script first asks for tide.ffi. */
#include <dlfcn.h>
#include <stdio.h>

#include <tide_headers.inc>

#include "library.h"
#include "tensor/tensor.h"

/* As this module was compiled: a struct, one of its fields, or a header. */
static const struct place {
  const char *type, *field, *file;
  tide_abi_mark mark;
} places[] = {
#define ABI_STRUCT(type, word)       {#type, NULL, NULL, {word, sizeof(type)}},
#define ABI_FIELD(type, field, word) {#type, #field, NULL, {word, offsetof(type, field)}},
#define ABI_TEXT(file, word, value)  {NULL, NULL, file, {word, value}},
#include <tide_marks.inc>
};
enum { PLACES = sizeof places / sizeof *places };

static const char key_space, key_address; /* registry */

/* {==== What the library was built with */

static int raise_other(lua_State *L, int abi, const char *what) {
  return luaL_error(L,
                    "tide: libtide %s (ABI %d) and this module, built with %s (ABI %d), are not of one build: %s; "
                    "install both of one",
                    tide_version(), abi, TIDE_VERSION, TIDE_ABI, what);
}

static void raise_place(lua_State *L, int abi, const struct place *p, const tide_abi_mark *there) {
  char what[256];
  const char *joint = p->field ? "." : "", *field = p->field ? p->field : "";
  if (p->file)
    snprintf(what, sizeof what, "tide/%s is another one", p->file);
  else if (there->name != p->mark.name)
    snprintf(what, sizeof what, "libtide has something else in the place of %s%s%s", p->type, joint, field);
  else if (p->field)
    snprintf(what, sizeof what, "%s.%s lies at byte %d in libtide and at %d here", p->type, p->field, there->value,
             p->mark.value);
  else
    snprintf(what, sizeof what, "%s has %d bytes in libtide and %d here", p->type, there->value, p->mark.value);
  raise_other(L, abi, what);
}

/* A field that has moved tells more than its struct, which has grown. */
static int find_difference(const tide_abi_mark *marks, int count) {
  int found = PLACES;
  for (int i = 0; i < PLACES && i < count; i++) {
    const tide_abi_mark *m = &places[i].mark;
    bool differs = m->name != marks[i].name || m->value != marks[i].value;
    if (differs && found == PLACES) found = i;
    if (differs && (places[i].field || m->name != marks[i].name)) return i;
  }
  return found;
}

void ltide_library_check(lua_State *L) {
  const tide_abi_mark *marks;
  size_t count;
  int abi = tide_abi(&marks, &count);
  if (abi != TIDE_ABI) raise_other(L, abi, "another ABI");
  int at = find_difference(marks, (int)count);
  if (at < PLACES) raise_place(L, abi, &places[at], &marks[at]);
  if (count != PLACES) raise_other(L, abi, count < PLACES ? "libtide has fewer headers" : "libtide has more headers");
}

/* {==== tide.ffi */

/* differ(struct, field or false, bytes in the library, bytes here or nil) */
static int differ(lua_State *L) {
  const char *field = lua_toboolean(L, 2) ? lua_tostring(L, 2) : NULL;
  const char *type = lua_tostring(L, 1), *here = lua_isnil(L, 4) ? "nothing" : lua_tostring(L, 4);
  return ltide_error(L, "LibraryError",
                     "tide.ffi: %s%s%s: what the FFI has been told is not what libtide %s (ABI %d) was built with: "
                     "%s is %s there and %s here, in a module for %s (ABI %d)",
                     type, field ? "." : "", field ? field : "", tide_version(), TIDE_ABI,
                     field ? "the offset in bytes" : "the size in bytes", lua_tostring(L, 3), here, TIDE_VERSION,
                     TIDE_ABI);
}

static int raise_absent(lua_State *L) {
  return ltide_error(L, "ArgumentError", "tide.ffi.%s: there is no such name; help(tide.ffi) lists them",
                     luaL_tolstring(L, 2, NULL));
}

static void push_layout(lua_State *L) {
  const tide_abi_mark *marks;
  size_t count;
  tide_abi(&marks, &count);
  lua_newtable(L);
  for (int i = 0; i < PLACES && places[i].type; i++) {
    lua_createtable(L, 3, 0);
    lua_pushstring(L, places[i].type), lua_rawseti(L, -2, 1);
    if (places[i].field)
      lua_pushstring(L, places[i].field);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, 2);
    lua_pushinteger(L, marks[i].value), lua_rawseti(L, -2, 3);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Released when the FFI's pointer is collected, which keeps this one. */
#define REFERENCE "tide.ffi.tensor"

static int reference_gc(lua_State *L) {
  tide_tensor_release_deferred(ltide_take_pointer(L, REFERENCE));
  return 0;
}

static int ltensor(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->v[0].tensor;
  void **u = ltide_new_pointer(L, REFERENCE);
  tide_tensor_retain(x);
  *u = x;
  ltide_push_pointer(L, "tide_tensor *", x);
  return 1;
}

static int lwrap(lua_State *L, ltide_call *c) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_address);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  tide_tensor *x = (tide_tensor *)(uintptr_t)lua_tonumber(L, -1);
  if (!x) return ltide_arg_error(L, 1, "pointer", "a tide_tensor * that is not NULL");
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  tide_tensor_retain(x);
  u->t = x;
  return 1;
}

static int lcheck(lua_State *L, ltide_call *c) {
  ltide_try(L, (tide_status)c->v[0].i);
  return 0;
}

static ltide_row rows[] = {
#include "ffi.def"
    {0}};

void ltide_library_note(lua_State *L) { ltide_note_rows(L, "tide.ffi", rows); }

static void *begin(ltide_state *S) { return ltide_ffi_begin(S); }
static void end(ltide_state *S, void *last) { ltide_ffi_end(S, last); }

/* library.lua and the declarations, made by CMake. */
static const struct text {
  const char *name, *text;
  size_t length;
} texts[] = {
#include <tide_library.inc>
};

static const char *file_of_library(void) {
  Dl_info info;
  return dladdr((const void *)(uintptr_t)tide_version, &info) && info.dli_fname ? info.dli_fname : "";
}

void ltide_library_push(lua_State *L) {
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_space) == LUA_TNIL) {
    luaL_checkstack(L, 16, "tide");
    ltide_open_finaliser(L, REFERENCE, reference_gc);
    lua_newtable(L);
    ltide_register_rows(L, "tide.ffi", rows);
    if (luaL_loadbuffer(L, texts[0].text, texts[0].length, texts[0].name) != LUA_OK) lua_error(L);
    lua_pushvalue(L, top);
    lua_pushlstring(L, texts[1].text, texts[1].length);
    lua_pushstring(L, file_of_library());
    push_layout(L);
    lua_pushcfunction(L, differ);
    lua_pushlightuserdata(L, ltide_state_of(L));
    lua_pushlightuserdata(L, (void *)(uintptr_t)begin), lua_pushlightuserdata(L, (void *)(uintptr_t)end);
    lua_pushcfunction(L, raise_absent);
    lua_pushvalue(L, top + 2);
    lua_call(L, 10, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_address);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_space);
  }
  lua_replace(L, top);
  lua_settop(L, top);
}

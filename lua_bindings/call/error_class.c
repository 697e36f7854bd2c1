/* error_class.c: the classes of errors: tide.cuda.OutOfMemoryError.is(e), and tide.warn. */
#include "row.h"

static int class_is(lua_State *L) {
  ltide_no_options(L, 1);
  bool is = false;
  if (ltide_is_error(L, 1)) {
    lua_getfield(L, 1, "kind");
    lua_pushvalue(L, lua_upvalueindex(2));
    is = lua_rawequal(L, -1, -2);
  }
  return ltide_give_boolean(L, is);
}

static int lerror_class_tostring(lua_State *L) {
  return lua_pushfstring(L, "tide error class %s", lua_tostring(L, lua_upvalueindex(1))), 1;
}

/* Sets t[kind] = {is = ...} in the table at the top. */
static void set_class(lua_State *L, const char *kind) {
  static ltide_row rows[] = {
      {.name = "is", .where = LTIDE_IN_MODULE, .doc = "class.is(e) -> boolean\nIs e an error of that kind?"}, {0}};
  ltide_note_rows(L, "class", rows);
  lua_createtable(L, 0, 1);
  lua_pushlightuserdata(L, rows);
  lua_pushstring(L, kind);
  lua_pushcclosure(L, class_is, 2);
  lua_setfield(L, -2, "is");
  lua_createtable(L, 0, 1);
  lua_pushstring(L, kind);
  lua_pushcclosure(L, lerror_class_tostring, 1);
  lua_setfield(L, -2, "__tostring");
  ltide_protect(L, kind);
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, kind);
}

static int lwarn(lua_State *L, ltide_call *c) { return ltide_warn(L, "%s", c->v[0].text), 0; }

void ltide_open_errors(lua_State *L, ltide_state *S) {
  ltide_open_error_meta(L, S);
  lua_createtable(L, 0, 16);
#define STATUS(code, kind, text)                                                                                       \
  if (TIDE_##code != TIDE_OK) {                                                                                        \
    ltide_document(L, "tide.errors", #kind, "tide.errors." #kind ".is(e) -> boolean\nA kind of error: " text ".");     \
    set_class(L, #kind);                                                                                               \
  }
#include "tide/status.def"
#undef STATUS
  lua_setfield(L, -2, "errors");
  lua_getfield(L, -1, "cuda");
  set_class(L, "OutOfMemoryError");
  set_class(L, "AcceleratorError");
  set_class(L, "DeferredCudaCallError");
  lua_pop(L, 1);
  static ltide_row rows[] = {
#include "call/api/error.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}

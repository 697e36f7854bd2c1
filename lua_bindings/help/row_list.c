/* row_list.c: tide._rows(), the table of functions as a table of Lua, for the checks and what writes the stubs, the
 * reference and the man page. */

#include "call/fields.h"
#include "call/row.h"

static void set_flag(lua_State *L, const char *key, bool on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, key);
}

static void push_param(lua_State *L, const ltide_param *p) {
  lua_createtable(L, 0, 8);
  ltide_set_text(L, "name", p->name);
  ltide_set_text(L, "type", ltide_kind_type(p));
  set_flag(L, "option", p->is_option);
  set_flag(L, "optional", p->is_optional);
  set_flag(L, "rest", p->is_rest);
  if (p->standard && *p->standard) ltide_set_text(L, "default", p->standard);
  if (!p->choices) return;
  lua_newtable(L);
  lua_Integer n = 0;
  for (const char *c = p->choices; *c; c += strlen(c) + 1) {
    lua_pushstring(L, c);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "choices");
}

typedef struct listing {
  lua_State *L;
  lua_Integer n;
} listing;

/* example = what help shows of the function, in the table at the top. */
static void set_example(lua_State *L, const char *path, const char *name) {
  ltide_script_push(L, "help/help.example");
  lua_pushstring(L, path), lua_pushstring(L, name);
  lua_call(L, 2, 1);
  lua_setfield(L, -2, "example");
}

static void add_row(void *ctx, const char *path, const ltide_row *row) {
  listing *list = ctx;
  lua_State *L = list->L;
  const ltide_sig *sig = ltide_row_sig(row);
  lua_createtable(L, 0, 8);
  ltide_set_text(L, "path", path), ltide_set_text(L, "name", row->name);
  const char *slash = row->noun ? strrchr(row->noun, '/') : NULL, *noun = slash ? slash + 1 : row->noun;
  if (noun) lua_pushlstring(L, noun, strcspn(noun, "_.")), lua_setfield(L, -2, "noun");
  set_flag(L, "callable", row->fn || row->same);
  if (row->needs) {
    int at = lua_gettop(L);
    ltide_capability_names(L, row->needs);
    lua_setfield(L, at, "needs");
    lua_settop(L, at);
  }
  if (row->doc) {
    const char *rest = strchr(row->doc, '\n');
    set_example(L, path, row->name);
    ltide_push_doc(L, row, true);
    lua_setfield(L, -2, "signature");
    ltide_set_text(L, "text", rest ? rest + 1 : "");
  }
  if (sig) {
    ltide_set_text(L, "results", sig->results);
    set_flag(L, "open", sig->is_open);
    lua_createtable(L, sig->count, 0);
    for (int i = 0; i < sig->count; i++) {
      push_param(L, &sig->param[i]);
      lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "params");
  }
  lua_rawseti(L, -2, ++list->n);
}

static int lrows(lua_State *L) {
  ltide_no_options(L, 0);
  listing list = {L, 0};
  lua_newtable(L);
  ltide_each_row(add_row, &list);
  return 1;
}

void ltide_open_row_list(lua_State *L, ltide_state *S) {
  static ltide_row rows[] = {{.name = "_rows",
                              .fn = lrows,
                              .where = LTIDE_IN_MODULE,
                              .doc = "tide._rows() -> {row, ...}\nThe table of functions, as it stands: path, name, "
                                     "signature, text, params, results and "
                                     "example of each. For what writes the reference."},
                             {0}};
  ltide_register_rows(L, "tide", rows);
}

/* io.c: pictures. */
#include "row.h"

static int lsave_png(lua_State *L, ltide_call *c) { return ltide_done(L, tide_png_save(c->v[0].text, c->v[1].tensor)); }

static int lload_png(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, tide_png_load(ltide_result(L, c), c->v[0].text));
}

void ltide_open_io(lua_State *L, ltide_state *S) {
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/io.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}

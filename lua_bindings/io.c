/* io.c: pictures. */
#include "row.h"
#include "bindings.h"

static int lsave_png(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  ltide_try(L, tide_png_save(path, ltide_check_tensor(L, S, 2, "image")));
  return 0;
}

static int lload_png(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_png_load(&u->t, path));
  ltide_made(L, S);
  return 1;
}

void ltide_open_io(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/io.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}

/* io.c: pictures. */
#include "bindings.h"

static int lsave_png(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  ltide_try(L, tide_png_save(path, ltide_check_tensor(L, S, 2, "image")));
  return 0;
}

static int lload_png(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  const char *path = ltide_check_cstring(L, 1, "path", "a file name");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_png_load(&u->t, path));
  ltide_made(L, S);
  return 1;
}

void ltide_open_io(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {{"save_png", lsave_png,
                                    "tide.save_png(path, image)\nWrites a uint8 tensor [h, w] (grey), [h, w, 3] (RGB) "
                                    "or [h, w, 4] (RGBA) as a PNG picture; one on a GPU is copied, which "
                                    "synchronises. A file that was there is "
                                    "replaced when all is written, and stays as it was after a FileError."},
                                   {"load_png", lload_png,
                                    "tide.load_png(path) -> Tensor\nReads a PNG picture into a uint8 tensor [h, w, "
                                    "channels]. FileError when it is missing or broken."},
                                   {0}};
  ltide_register(L, "tide", list);
}

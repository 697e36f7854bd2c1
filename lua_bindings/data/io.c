/* io.c: pictures. */
#include "tensor/tensor.h"

static int lsave_png(lua_State *L, ltide_call *c) { return ltide_done(L, tide_png_save(c->v[0].text, c->v[1].tensor)); }

static int lload_png(lua_State *L, ltide_call *c) {
  const ltide_value *bits = &c->v[1];
  int count = bits->i > 16 ? -1 : (int)bits->i; /* 0: not given */
  if (bits->given && count != 8 && count != 16)
    return ltide_error(L, "ValueError", "load_png: bits: got %I, expected 8 or 16", (LUAI_UACINT)bits->i);
  return ltide_finish(L, c, tide_png_load_as(ltide_result(L, c), c->v[0].text, count, c->v[2].boolean));
}

#define NOUN io
#include "call/api/open_noun.def"

/* warning.c: where the host has given a log, the warnings of every state that opens the module go there.
 *
 * A state that luaL_newstate made drops warnings until a script says warn "@on", and then writes them to stderr, where
 * a game's user looks last. Lua gives a message in pieces, a log takes it whole. Lua cannot say which function a
 * state's warnings go to, so one that the host has set before is replaced: a host that wants its own instead of the log
 * sets it after the module was opened. The function is called while the state closes too, after state_gc: by then the
 * struct is still there (the collector frees nothing before the last finaliser) and so is this code (the module stays
 * loaded). */
#include <stdlib.h>

#include "error.h"

struct ltide_warning_part {
  char *text; /* the pieces of a message so far, or NULL */
  size_t length;
  ltide_warn_switch now;
};
LTIDE_PART(warning)
LTIDE_PART_SIZE(warning)

/* Without memory the pieces are told one by one. */
static void append(struct ltide_warning_part *w, const char *piece) {
  size_t n = strlen(piece);
  char *text = realloc(w->text, w->length + n + 1);
  if (!text) {
    if (w->text) tide_log(w->text);
    free(w->text);
    tide_log(piece);
    w->text = NULL, w->length = 0;
    return;
  }
  memcpy(text + w->length, piece, n + 1);
  w->text = text, w->length += n;
}

static void warn(void *user, const char *piece, int to_continue) {
  struct ltide_warning_part *w = ltide_warning_of(user);
  if (!ltide_warn_filter(&w->now, piece, to_continue)) return;
  if (w->text || to_continue) {
    append(w, piece);
    if (to_continue) return;
    char *whole = w->text;
    w->text = NULL, w->length = 0; /* the log may warn */
    if (whole) tide_log(whole);
    free(whole);
  } else {
    tide_log(piece);
  }
}

void ltide_warn_open(lua_State *L, ltide_state *S) {
  if (tide_log(NULL)) lua_setwarnf(L, warn, S);
}

void ltide_warn_close(ltide_state *S) {
  struct ltide_warning_part *w = ltide_warning_of(S);
  free(w->text);
  w->text = NULL;
}

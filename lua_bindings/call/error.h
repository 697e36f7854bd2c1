/* error.h: raises errors and warns, in the words of the running function. */
#pragma once

#include "object.h"

/* error.c. All of these raise and never return; the int is for `return`. */
int ltide_raise(lua_State *L);                                            /* the thread's tide_error_get() */
void ltide_push_raised(lua_State *L);                                     /* its object, without raising it */
int ltide_error(lua_State *L, const char *kind, const char *format, ...); /* formats as lua_pushfstring */
int ltide_fail(lua_State *L, const char *kind, const char *format, ...);  /* behind the running function's name */
/* Makes the error object of the message at the top of the stack, in its place, for further fields and lua_error. */
void ltide_push_error(lua_State *L, const char *kind);
/* Bad argument: "add: x: got string, expected a tensor"; what = NULL: the running function's own name. */
int ltide_arg_error(lua_State *L, int arg, const char *name, const char *expected);
/* A handle without what it held, freed or collected and seen by another finaliser: "sum: x: got a freed tensor, ..." */
int ltide_freed_error(lua_State *L, const char *name, const char *noun);
/* luaL_checkstring and luaL_checkudata, whose errors would be plain strings. */
const char *ltide_check_text(lua_State *L, int arg, const char *name);
void *ltide_check_object(lua_State *L, int arg, const char *meta);
/* For finalisers of objects that hold one pointer: takes it out of the object at 1. NULL where that one is empty or
 * none of these, since a script can call a finaliser with anything. */
void *ltide_take_pointer(lua_State *L, const char *meta);
/* A string that C sees whole, such as a path: one without zeros. */
const char *ltide_check_cstring(lua_State *L, int arg, const char *name, const char *expected);
static inline void ltide_try(lua_State *L, tide_status status) {
  if (status != TIDE_OK) ltide_raise(L);
}
/* For `return`: without a result, with what is at the top, with a value. */
static inline int ltide_done(lua_State *L, tide_status status) { return ltide_try(L, status), 0; }
static inline int ltide_give(lua_State *L, tide_status status) { return ltide_try(L, status), 1; }
static inline int ltide_give_boolean(lua_State *L, bool b) { return lua_pushboolean(L, b), 1; }
static inline int ltide_give_integer(lua_State *L, lua_Integer i) { return lua_pushinteger(L, i), 1; }
void ltide_warn_hook(void *user, const char *message); /* for tide_warn_set */

struct ltide_error_part {
  const void *meta;
  /* By the higher floors: add fields to the error object at the top, if the thread's error is of that sort. */
  void (*set_oom)(lua_State *L, int device), (*set_race)(lua_State *L);
  const char *(*dot_hint)(lua_State *L); /* did_you_mean.c: a colon where a dot belongs, or "" */
  const char *(*arg_hint)(lua_State *L, int arg, const char *expected);
  void (*on_ended)(ltide_state *S, lua_State *co); /* the coroutine raises the error that ends the state */
};
LTIDE_PART(error)

void ltide_open_error_meta(lua_State *L, ltide_state *S);
bool ltide_is_error(lua_State *L, int arg); /* an error object? */
/* device_lost_error.c: pushes the error that ltide_lost_keep has kept, for the one at the top, at this place with this
 * message; false: there is none. */
bool ltide_lost_again(lua_State *L, const char *message);
void ltide_lost_keep(lua_State *L);
const char *ltide_typename(lua_State *L,
                           int arg);           /* "number 3", "string 'x'", "tensor [2, 3] float32", ... for messages */
const char *ltide_function_name(lua_State *L); /* by which the running C function was called, for messages */
void ltide_warn(lua_State *L, const char *format, ...); /* through Lua's warn */

/* luaL_traceback without the frames of tide's own chunks. */
void ltide_traceback(lua_State *L, lua_State *co, const char *message, int level);
/* The nearest function of the script's that is running; false: none is. */
bool ltide_find_script(lua_State *L, lua_Debug *ar);
/* error.c: __newindex of objects whose fields are told and not set. */
int ltide_read_only(lua_State *L);

/* {==== warning.c: Lua's warnings, which go to the host's log */

/* Which of a state's warnings are heard, as Lua's own library has it: a message may come in pieces, and one that is all
 * in one piece and begins with "@" commands. */
typedef struct ltide_warn_switch {
  bool off, continues;
} ltide_warn_switch;
/* Is the piece to be told? */
static inline bool ltide_warn_filter(ltide_warn_switch *w, const char *piece, int to_continue) {
  bool commands = !w->continues && !to_continue && piece[0] == '@';
  if (commands && !strcmp(piece, "@on")) w->off = false;
  if (commands && !strcmp(piece, "@off")) w->off = true;
  w->continues = to_continue;
  return !commands && !w->off;
}

void ltide_warn_open(lua_State *L, ltide_state *S); /* the state's warnings go to the host's log */
void ltide_warn_close(ltide_state *S);

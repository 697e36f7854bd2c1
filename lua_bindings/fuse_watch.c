/* fuse_watch.c: the calls of a function that is followed, which a hook sees before they are made: may they read a
 * tensor without values? */
#include "fuse_follow.h"

#if LUA_VERSION_NUM == 504

/* The number of the value that lightuserdata of the record stands for, or -1. */
static int value_at(lua_State *L, int index) {
  return lua_islightuserdata(L, index) ? (int)((char *)lua_touserdata(L, index) - (char *)NULL) - 1 : -1;
}

/* Is what the call gets at a what the record has at b? */
typedef bool (*compare)(follower *w, int a, int b, int depth, bool *flag);

static bool has_args(follower *w, const fuse_event *e, lua_Debug *ar, compare same, bool *flag) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  lua_getinfo(L, "r", ar);
  bool has = ar->ntransfer == e->call.args;
  lua_rawgetp(L, LUA_REGISTRYINDEX, w);
  lua_getiuservalue(L, -1, FOLLOWER_REFS);
  lua_replace(L, top + 1);
  for (int k = 0; k < e->call.args && has; k++, lua_settop(L, top + 1)) {
    const fuse_arg *a = &e->call.arg[k];
    if (!lua_getlocal(L, ar, ar->ftransfer + k)) lua_pushnil(L);
    if (a->value >= 0)
      lua_pushlightuserdata(L, (char *)NULL + a->value + 1);
    else
      lua_rawgeti(L, top + 1, a->ref);
    has = same(w, top + 2, top + 3, 0, flag);
  }
  lua_settop(L, top);
  return has;
}

/* Everything, but for numbers of an operation, whose kind is the same; of a table its fields. */
static bool is_same(follower *w, int a, int b, int depth, bool *is_op) {
  lua_State *L = w->L;
  int fields = 0, top = lua_gettop(L);
  const ltide_tensor *u = ltide_test_handle(L, w->S, a);
  if (u) return fuse_is_value(w, value_at(L, b), u->t);
  if (lua_type(L, a) == LUA_TNUMBER)
    return lua_type(L, b) == LUA_TNUMBER && lua_isinteger(L, a) == lua_isinteger(L, b) &&
           (*is_op || lua_rawequal(L, a, b));
  if (lua_rawequal(L, a, b)) return true;
  if (!lua_istable(L, a) || !lua_istable(L, b) || depth) return false;
  for (lua_pushnil(L); lua_next(L, a); lua_settop(L, top + 1), fields++) {
    lua_pushvalue(L, top + 1);
    lua_rawget(L, b);
    if (!is_same(w, top + 2, top + 3, depth + 1, is_op)) return lua_settop(L, top), false;
  }
  for (lua_pushnil(L); lua_next(L, b); lua_settop(L, top + 1)) fields--;
  lua_settop(L, top);
  return fields == 0;
}

/* The tensors, also in tables. needs: one of them has no values. */
static bool has_same_tensors(follower *w, int a, int b, int depth, bool *needs) {
  lua_State *L = w->L;
  int top = lua_gettop(L), value = value_at(L, b);
  const ltide_tensor *u = ltide_test_handle(L, w->S, a);
  if (u || value >= 0) {
    *needs |= value >= 0 && !w->has_values[value];
    return u && fuse_is_value(w, value, u->t);
  }
  if (!lua_istable(L, a) || !lua_istable(L, b)) return !lua_istable(L, a) && !lua_istable(L, b);
  if (depth > 4 || lua_getmetatable(L, a)) return lua_settop(L, top), false;
  if (!lua_checkstack(L, 8)) return false;
  bool same = true;
  for (lua_pushnil(L); same && lua_next(L, a); lua_settop(L, top + 1)) {
    lua_pushvalue(L, top + 1);
    lua_rawget(L, b);
    same = has_same_tensors(w, top + 2, top + 3, depth + 1, needs);
  }
  lua_settop(L, top);
  return same;
}

/* Gives the arguments their values, if they are those of the record's call, before it is made. */
static bool begin_call(follower *w, const fuse_event *e, lua_Debug *ar) {
  bool needs = false;
  if (!has_args(w, e, ar, has_same_tensors, &needs)) return false;
  bool is_op = false;
  if (needs && (!fuse_is_idle_cast(e) || !fuse_state_holds(w->L, w->record) || !has_args(w, e, ar, is_same, &is_op))) {
    needs = false;
    fuse_advance(w->L, w, e->step);
    if (!has_args(w, e, ar, has_same_tensors, &needs) || needs) return false;
  }
  w->frame = ar->i_ci;
  return true;
}

/* The tensor at the top, which is popped, is the value; false: it is of another kind than it was. */
static bool note_made(follower *w, int value) {
  const struct fuse_kind *kind = &w->trace->kind[value];
  const ltide_tensor *u = ltide_test_handle(w->L, w->S, lua_gettop(w->L));
  lua_pop(w->L, 1);
  if (!u || !u->t || (w->tensor[value] && w->tensor[value] != u->t)) return false;
  if (tide_tensor_dtype(u->t) != (tide_dtype)kind->dtype || tide_tensor_ndim(u->t) != kind->ndim ||
      tide_tensor_device(u->t) != kind->device)
    return false;
  if (w->tensor[value]) return true;
  tide_tensor_retain(w->tensor[value] = u->t);
  return w->has_values[value] = true;
}

static bool note_results(follower *w, const fuse_event *e, lua_Debug *ar) {
  lua_State *L = w->L;
  const fuse_step *s = &e->call;
  lua_getinfo(L, "r", ar);
  if (ar->ntransfer != s->results) return false;
  for (int k = 0; k < s->results; k++) {
    int top = lua_gettop(L);
    if (!lua_getlocal(L, ar, ar->ftransfer + k)) lua_pushnil(L);
    if (s->result[k] >= 0) {
      if (!note_made(w, s->result[k])) return false;
      continue;
    }
    if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != s->listed[k]) return false;
    for (int i = 0; i < s->listed[k]; i++) {
      lua_rawgeti(L, top + 1, i + 1);
      if (!note_made(w, -2 - s->result[k] + i)) return false;
    }
    lua_settop(L, top);
  }
  return true;
}

static void end_call(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  bool same = note_results(w, &w->trace->event[w->next], ar);
  lua_settop(L, top);
  w->frame = NULL;
  if (same)
    w->next++;
  else
    ltide_try(L, fuse_do_all(L, w));
}

/* Is the first argument a tensor that the function has made? */
static bool is_own(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  lua_getinfo(L, "r", ar);
  if (!lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  const void *handle = ltide_test_handle(L, w->S, lua_gettop(L));
  lua_pop(L, 1);
  for (int k = 0; k < w->record->inputs; k++)
    if (w->handles[k] == handle) return false;
  return handle != NULL;
}

/* The C function at the top reads no values, or the record's next operation puts it off. */
static bool is_safe(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  lua_CFunction fn = lua_tocfunction(L, -1);
  const fuse_event *e = w->next < w->trace->events ? &w->trace->event[w->next] : NULL;
  const ltide_row *row = NULL;
  if (w->frame) return true;
  if (fn == w->index) {
    lua_getinfo(L, "r", ar);
    if (!lua_getlocal(L, ar, ar->ftransfer + 1)) lua_pushnil(L);
    const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "T";
    bool is_view = !strcmp(key, "T") || !strcmp(key, "mT");
    lua_pop(L, 1);
    if (!is_view) return true;
  } else if (fn == w->close)
    return is_own(w, ar);
  else if (fn == w->length)
    return true;
  else if (!e || e->fn != fn || e->what != FUSE_OP)
    row = ltide_row_at(L, -1);
  else
    row = e->row;
  if (fuse_frees(row)) return is_own(w, ar);
  if (e && e->fn == fn && e->row == row) {
    if (fuse_is_made(e)) return begin_call(w, e, ar);
    bool is_op = e->what == FUSE_OP;
    return e->what == FUSE_CAST || has_args(w, e, ar, is_same, &is_op);
  }
  if (row) return fuse_tells_kind(row->name) || ltide_is_in(" size numel nelement nbytes ", row->name);
  fuse_purity purity = fuse_purity_of(L);
  return purity != FUSE_IMPURE && purity != FUSE_WRITES;
}

/* What it writes to other tables might be a tensor without values, where nobody sees it. */
static bool is_safe_function(const follower *w, lua_Debug *ar) {
  if (w->frame) {
    lua_getinfo(w->L, "S", ar);
    return ltide_script_is(ar);
  }
  int known = fuse_find_known(w->L, &w->trace->known, ar);
  return known >= 0 && !w->trace->known.writes[known];
}

/* Is the record's call still being made? It may have failed, and its frame be that of another one. */
static bool is_inside(const follower *w, const lua_Debug *ar) {
  lua_Debug up;
  if (ar->i_ci == w->frame) return false;
  for (int level = 1; lua_getstack(w->L, level, &up); level++)
    if (up.i_ci == w->frame) return true;
  return false;
}

void fuse_follow_hook(lua_State *L, lua_Debug *ar) {
  ltide_state *S = ltide_state_of(L);
  follower *w = S ? S->follower : NULL;
  if (!w || w->L != L) return;
  int top = lua_gettop(L);
  if (ar->event == LUA_HOOKCOUNT || ar->event == LUA_HOOKLINE) { /* of somebody else, who may do anything */
    lua_Hook other = w->hook;
    ltide_try(L, fuse_do_all(L, w));
    if (other) other(L, ar);
    return;
  }
  luaL_checkstack(L, 16, "tide.fuse"); /* no call goes by unseen */
  if (w->frame && ar->event != LUA_HOOKRET && !is_inside(w, ar)) {
    ltide_try(L, fuse_do_all(L, w));
    return;
  }
  if (ar->event == LUA_HOOKRET) {
    if (w->frame == ar->i_ci) end_call(w, ar);
    return;
  }
  lua_getinfo(L, "f", ar);
  bool safe = lua_iscfunction(L, -1) ? is_safe(w, ar) : is_safe_function(w, ar);
  lua_settop(L, top);
  if (!safe) ltide_try(L, fuse_do_all(L, w));
}

#endif

/* distributed.c: tide.distributed: collectives and messages between processes.
 *
 * A function starts an operation, which is a Work, and waits for it or returns it. The wait is a loop here: it polls,
 * and lets hooks of the script run in between, so that Ctrl-C, SIGTERM and quotas end it. Ranks count from 0.
 *
 * Invariant: a started operation belongs to a handle before anything may raise. */
#include <stdlib.h>

#include "call/class.h"
#include "distributed.h"
#include "tide/profiler.h"

#define WORK_META  "tide.distributed.Work"
#define GROUP_META "tide.distributed.Group"

static const tide_distributed *get_library(lua_State *L) {
  const tide_distributed *d = ltide_distributed_open();
  if (!d) ltide_raise(L);
  return d;
}

/* Where processes were not joined before they are now: a group is there whenever a function asks for one. */
static const tide_distributed *get_joined(lua_State *L) {
  const tide_distributed *d = get_library(L);
  if (!d->is_initialized())
    ltide_fail(L, "StateError", "there is no group of processes, expected init_process_group() before");
  return d;
}

/* {==== Waiting */

static int script_line(lua_State *L, const char **file);

/* A trace shows the wait. An error that ends it leaves the range open until the thread's next wait. */
static _Thread_local uint64_t waiting;
static void begin_range(lua_State *L) {
  const char *file;
  char text[300];
  if (waiting) tide_nvtx_scope_leave(waiting);
  waiting = 0;
  if (!tide_profile_is_recording() && !tide_nvtx_available()) return;
  int line = script_line(L, &file);
  snprintf(text, sizeof text, "%s  %s:%d", ltide_function_name(L), file, line);
  waiting = tide_nvtx_scope_enter(text);
}

static void wait_on_host(lua_State *L, tide_work *work) {
  const tide_distributed *d = ltide_distributed_opened();
  const char *why = tide_refuse_waits(NULL), *notice;
  tide_refuse_waits(why);
  begin_range(L);
  for (bool done = false; !done;) {
    ltide_try(L, d->poll(&done, work, &notice));
    if (notice) ltide_distributed_tell(notice);
    if (done) break;
    if (why) ltide_fail(L, "StateError", "this would wait for other ranks%s", why);
    ltide_poll_hooks(L);
  }
  if (waiting) tide_nvtx_scope_leave(waiting);
  waiting = 0;
}

/* The current stream waits, or the host does. */
void ltide_distributed_wait(lua_State *L, tide_work *work) {
  bool ordered;
  ltide_try(L, ltide_distributed_opened()->order(&ordered, work));
  if (!ordered) wait_on_host(L, work);
}

/* {==== Works */

static void release_work(void *work) { ltide_distributed_opened()->release(work); }

static int lwork_wait(lua_State *L, ltide_call *c) {
  tide_work **u = ltide_check_object(L, 1, WORK_META);
  if (!*u) return ltide_freed_error(L, "work", "work");
  ltide_distributed_wait(L, *u);
  return 0;
}

static int lwork_is_completed(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, ltide_distributed_is_done(L, 1));
}

static ltide_row work_rows[] = {
    OF(work, wait, DO(lwork_wait), "()",
       "Waits until the operation is done. For tensors of a GPU the current stream waits, and the host does not.")
        OF(work, is_completed, DO(lwork_is_completed), "() -> boolean", "Is the operation done? Does not wait."){0}};
static const ltide_class work_class = {.meta = WORK_META, .name = "Work", .rows = work_rows, .release = release_work};

static tide_work **new_work(lua_State *L) { return ltide_new_instance(L, &work_class); }

/* {==== Groups */

static void release_group(void *group) { ltide_distributed_opened()->group_release(group); }

static int lgroup_rank(lua_State *L, ltide_call *c);
static int lgroup_size(lua_State *L, ltide_call *c);
static int group_tostring(lua_State *L, void *group) {
  const tide_distributed *d = ltide_distributed_opened();
  return lua_pushfstring(L, "tide.distributed.Group(rank %d of %d)", d->rank(group), d->size(group)), 1;
}

static ltide_row group_rows[] = {
    OF(group, rank, DO(lgroup_rank), "() -> integer", "The place of this rank in the group.")
        OF(group, size, DO(lgroup_size), "() -> integer", "How many ranks it has."){0}};
static const ltide_class group_class = {
    .meta = GROUP_META, .name = "Group", .rows = group_rows, .release = release_group, .tostring = group_tostring};

/* A group, or nil for that of all ranks; false is what new_group gives to a rank that is not in it. */
static tide_group *check_group(lua_State *L, int arg) {
  if (!arg || lua_isnoneornil(L, arg)) return NULL;
  tide_group **u = ltide_test_object(L, arg, GROUP_META);
  if (!u && lua_isboolean(L, arg)) ltide_fail(L, "StateError", "group: got one that this rank is not in");
  if (!u || !*u) ltide_arg_error(L, arg, "group", "a group of new_group");
  return *u;
}

static int lgroup_rank(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, get_library(L)->rank(check_group(L, 1)));
}

static int lgroup_size(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, get_library(L)->size(check_group(L, 1)));
}

/* {==== The process */

static bool has_connected;

/* Each process of a machine begins with a device of its own. */
static void choose_device(lua_State *L, const tide_distributed *d) {
  int devices = tide_is_available() ? tide_device_count() : 0;
  if (devices > 0) ltide_try(L, tide_current_set_device(d->local_rank() % devices));
}

/* The GPU of this rank for collectives by NCCL; -1: another rank of this machine may have the same one. */
static int get_device(const tide_distributed *d) {
  const tide_device_props *props;
  int device = tide_current_device(), devices = tide_is_available() ? tide_device_count() : 0;
  if (devices < 1) return -1;
  bool is_simulated = tide_device_get_props(&props, device) == TIDE_OK && props->simulated;
  return is_simulated || d->local_size() <= devices ? device : -1;
}

static void connect_ranks(lua_State *L, const tide_distributed *d, tide_group *group, bool must) {
  const char *file;
  int line = script_line(L, &file);
  if (!must && d->size(group) < 2) return;
  tide_work **u = new_work(L);
  ltide_try(L, d->connect(u, group, get_device(d), must, file, line));
  wait_on_host(L, *u);
  lua_pop(L, 1);
}

static int linit(lua_State *L, ltide_call *c) {
  const char *backend = c->v[0].given ? c->v[0].text : "auto";
  tide_distributed_config config = {.struct_size = sizeof config};
  bool is_nccl = !strcmp(backend, "nccl");
  config.alone = !strcmp(backend, "alone");
  if (strcmp(backend, "auto") != 0 && strcmp(backend, "mpi") != 0 && !is_nccl && !config.alone)
    return ltide_error(L, "ValueError",
                       "init_process_group: backend: got '%s', expected 'auto', 'mpi', 'nccl' or 'alone'", backend);
  config.needs_mpi = *backend == 'm';
  if (c->v[1].given) config.timeout = c->v[1].number;
  if (c->v[2].given) config.notice = c->v[2].number;
  if ((c->v[1].given && !(config.timeout > 0)) || (c->v[2].given && !(config.notice > 0)))
    return ltide_error(L, "ValueError", "init_process_group: timeout and notice: expected seconds above 0");
  const tide_distributed *d = get_library(L);
  ltide_try(L, d->init(&config));
  ltide_distributed_joined();
  choose_device(L, d);
  if (*backend != 'm' && !d->uses_nccl(NULL) && (is_nccl || !has_connected)) connect_ranks(L, d, NULL, is_nccl);
  has_connected |= *backend != 'm';
  return 0;
}

/* The script's file without its folder, and the line. */
static int script_line(lua_State *L, const char **file) {
  const char *source = "";
  int line = ltide_line(L, &source);
  *file = "";
  if (line <= 0) return 0;
  const char *slash = strrchr(source, '/');
  *file = slash ? slash + 1 : *source == '@' || *source == '=' ? source + 1 : "chunk";
  return line;
}

static int ldestroy(lua_State *L, ltide_call *c) {
  const tide_distributed *d = get_library(L);
  const char *file;
  int line = script_line(L, &file);
  if (!d->is_initialized()) return 0;
  tide_work **u = new_work(L);
  ltide_try(L, d->leave(u, file, line));
  ltide_distributed_wait(L, *u);
  d->end();
  has_connected = false;
  return 0;
}

static int lis_initialized(lua_State *L, ltide_call *c) {
  const tide_distributed *d = ltide_distributed_opened();
  return ltide_give_boolean(L, d && d->is_initialized());
}

static int lis_available(lua_State *L, ltide_call *c) { return ltide_give_boolean(L, ltide_distributed_open()); }

static int lis_launched(lua_State *L, ltide_call *c) { return ltide_give_boolean(L, get_library(L)->is_launched()); }

static int lget_rank(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, get_joined(L)->rank(check_group(L, c->v[0].given ? c->v[0].at : 0)));
}

static int lget_world_size(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, get_joined(L)->size(check_group(L, c->v[0].given ? c->v[0].at : 0)));
}

static int llocal_rank(lua_State *L, ltide_call *c) { return ltide_give_integer(L, get_joined(L)->local_rank()); }

static int lget_backend(lua_State *L, ltide_call *c) {
  const char *library = get_joined(L)->library();
  lua_pushstring(L, get_joined(L)->uses_nccl(NULL) ? "nccl" : *library ? "mpi" : "alone");
  lua_pushstring(L, library);
  return 2;
}

static const char *const levels[] = {"off", "info", "detail"};
static int lset_debug_level(lua_State *L, ltide_call *c) {
  for (int i = 0; i < 3; i++)
    if (!strcmp(c->v[0].text, levels[i])) return get_library(L)->set_check((tide_rank_check)i), 0;
  return ltide_error(L, "ValueError", "set_debug_level: level: got '%s', expected 'off', 'info' or 'detail'",
                     c->v[0].text);
}

static int lget_debug_level(lua_State *L, ltide_call *c) {
  return lua_pushstring(L, levels[get_library(L)->get_check()]), 1;
}

/* {==== Operations */

/* The operation of the running row: what all of them share. */
tide_distributed_call ltide_distributed_begin(lua_State *L, ltide_call *c, tide_collective kind) {
  tide_distributed_call call = {.struct_size = sizeof call, .kind = kind, .name = c->row->name};
  call.line = script_line(L, &call.file);
  get_joined(L);
  return call;
}

/* The same for a row with group=. */
static tide_distributed_call begin(lua_State *L, ltide_call *c, tide_collective kind) {
  tide_distributed_call call = ltide_distributed_begin(L, c, kind);
  const ltide_value *group = ltide_get(L, c, "group");
  call.group = check_group(L, group->given ? group->at : 0);
  return call;
}
tide_distributed_call ltide_distributed_begin_in(lua_State *L, ltide_call *c, tide_collective kind) {
  return begin(L, c, kind);
}

/* A call's own work, which is done when it returns. */
static int finish(lua_State *L, const tide_distributed_call *call, bool is_async) {
  tide_work **u = new_work(L);
  ltide_try(L, get_joined(L)->start(u, call));
  if (is_async) return 1;
  ltide_distributed_wait(L, *u);
  tide_work *work = *u;
  *u = NULL;
  ltide_distributed_opened()->release(work);
  return 0;
}

static bool is_async(lua_State *L, const ltide_call *c) {
  const ltide_value *v = ltide_get(L, c, "async_op");
  return v->given && v->boolean;
}

static tide_rank_op get_op(lua_State *L, const ltide_call *c) {
  static const char *const names[] = {"sum", "prod", "min", "max", "avg"};
  const ltide_value *v = ltide_get(L, c, "op");
  if (!v->given) return TIDE_RANK_SUM;
  for (int i = 0; i < 5; i++)
    if (!strcmp(v->text, names[i])) return (tide_rank_op)i;
  return (tide_rank_op)ltide_fail(L, "ValueError", "op: got '%s', expected 'sum', 'prod', 'min', 'max' or 'avg'",
                                  v->text);
}

void ltide_distributed_run(lua_State *L, const tide_distributed_call *call) { finish(L, call, false); }

/* A barrier with a limit of its own. */
static int lmonitored_barrier(lua_State *L, ltide_call *c) {
  tide_distributed_call call = begin(L, c, TIDE_BARRIER_RANKS);
  const ltide_value *timeout = ltide_get(L, c, "timeout");
  if (timeout->given && !(timeout->number > 0))
    return ltide_error(L, "ValueError", "monitored_barrier: timeout: expected seconds above 0");
  if (timeout->given) call.timeout = timeout->number;
  return finish(L, &call, false);
}

/* The call of the row's kind, by its signature: the first parameter is written and the second read, but gather's are
 * the other way round; an integer is the other rank. */
static tide_distributed_call read_collective(lua_State *L, ltide_call *c) {
  tide_distributed_call call = begin(L, c, (tide_collective)c->row->tag);
  for (int k = 0; k < c->sig->positional; k++) {
    ltide_value *v = &c->v[k];
    bool is_list = c->sig->param[k].kind == LTIDE_TENSORS, is_written = (k == 0) != (call.kind == TIDE_GATHER_RANKS);
    tide_tensor **tensors = is_list ? v->tensors : &v->tensor;
    int n = !is_list ? 1 : v->given ? v->n : 0;
    if (c->sig->param[k].kind == LTIDE_INTEGER)
      call.peer = (int)v->i;
    else if (is_written)
      call.out = tensors, call.outs = n;
    else
      call.in = tensors, call.ins = n;
  }
  bool reduces = call.kind == TIDE_ALL_REDUCE_RANKS || call.kind == TIDE_REDUCE_RANKS;
  if (reduces || call.kind == TIDE_REDUCE_SCATTER_RANKS) call.op = get_op(L, c);
  return call;
}

static int lcollective(lua_State *L, ltide_call *c) {
  tide_distributed_call call = read_collective(L, c);
  return finish(L, &call, is_async(L, c));
}

/* Sizes along the first dimension, one for each rank; NULL: none are given. They live as long as the call. */
static const int64_t *get_splits(lua_State *L, const ltide_call *c, const char *name, int size) {
  const ltide_value *v = ltide_get(L, c, name);
  if (!v->given) return NULL;
  int64_t *splits = ltide_new_object(L, (size_t)size * sizeof *splits, 0);
  int given = ltide_check_integers(L, v->at, splits, size, name);
  if (given != size)
    ltide_fail(L, "ValueError", "%s: got %d sizes, expected one for each of the %d ranks", name, given, size);
  return splits;
}

static int lall_to_all_single(lua_State *L, ltide_call *c) {
  tide_distributed_call call = read_collective(L, c);
  int size = get_joined(L)->size(call.group);
  call.out_split = get_splits(L, c, "output_split_sizes", size);
  call.in_split = get_splits(L, c, "input_split_sizes", size);
  return finish(L, &call, is_async(L, c));
}

/* {==== Messages */

tide_work *ltide_distributed_message(lua_State *L, tide_distributed_call call, tide_tensor *x, int group) {
  call.struct_size = sizeof call;
  call.line = script_line(L, &call.file);
  const tide_distributed *d = get_joined(L);
  call.group = check_group(L, group);
  if (call.kind == TIDE_SEND_RANKS)
    call.in = &x, call.ins = 1;
  else
    call.out = &x, call.outs = 1;
  tide_work **u = new_work(L);
  ltide_try(L, d->start(u, &call));
  return *u;
}

/* One message of the row's kind with the peer; its work is at the top. */
static tide_work *start_message(lua_State *L, ltide_call *c, tide_collective kind, tide_tensor **x, int peer) {
  const ltide_value *group = ltide_get(L, c, "group");
  int tag = (int)ltide_get(L, c, "tag")->i;
  tide_distributed_call call = {.kind = kind, .name = c->row->name, .peer = peer, .tag = tag};
  return ltide_distributed_message(L, call, *x, group->given ? group->at : 0);
}

void ltide_distributed_finish(lua_State *L, int arg) {
  tide_work **u = ltide_check_object(L, arg, WORK_META), *work = *u;
  if (!work) return;
  ltide_distributed_wait(L, work);
  *u = NULL;
  release_work(work);
}

bool ltide_distributed_is_done(lua_State *L, int arg) {
  tide_work **u = ltide_check_object(L, arg, WORK_META);
  bool done = true;
  if (*u) ltide_try(L, ltide_distributed_opened()->poll(&done, *u, NULL));
  return done;
}

static int peer_of(const ltide_value *v) { return v->given ? (int)v->i : TIDE_ANY_RANK; }

static int lisend(lua_State *L, ltide_call *c) {
  start_message(L, c, TIDE_SEND_RANKS, &c->x, (int)c->v[1].i);
  return 1;
}

static int lirecv(lua_State *L, ltide_call *c) {
  start_message(L, c, TIDE_RECV_RANKS, &c->x, peer_of(&c->v[1]));
  return 1;
}

static int lsend(lua_State *L, ltide_call *c) {
  ltide_distributed_wait(L, start_message(L, c, TIDE_SEND_RANKS, &c->x, (int)c->v[1].i));
  return 0;
}

static int lrecv(lua_State *L, ltide_call *c) {
  tide_work *work = start_message(L, c, TIDE_RECV_RANKS, &c->x, peer_of(&c->v[1]));
  if (c->v[1].given) {
    ltide_distributed_wait(L, work);
    return ltide_give_integer(L, c->v[1].i);
  }
  wait_on_host(L, work);
  return ltide_give_integer(L, ltide_distributed_opened()->source(work));
}

/* (x, to, y, from): either may be nil, as at a border. */
static int lsendrecv(lua_State *L, ltide_call *c) {
  tide_work *recv = c->v[3].given ? start_message(L, c, TIDE_RECV_RANKS, &c->v[2].tensor, (int)c->v[3].i) : NULL;
  tide_work *send = c->v[1].given ? start_message(L, c, TIDE_SEND_RANKS, &c->x, (int)c->v[1].i) : NULL;
  if (recv) ltide_distributed_wait(L, recv);
  if (send) ltide_distributed_wait(L, send);
  return 0;
}

/* {==== More groups */

static int lnew_group(lua_State *L, ltide_call *c) {
  const tide_distributed *d = get_joined(L);
  int size = d->size(NULL), n = size;
  int64_t *given = ltide_new_object(L, (size_t)size * (sizeof *given + sizeof(int)), 0);
  int *ranks = (int *)(given + size);
  const char *file;
  int line = script_line(L, &file);
  if (c->v[0].given) n = ltide_check_integers(L, c->v[0].at, given, size, "ranks");
  for (int i = 0; i < n; i++) ranks[i] = c->v[0].given ? (int)given[i] : i;
  tide_work **u = new_work(L);
  void **group = ltide_new_instance(L, &group_class);
  ltide_try(L, d->group_new(u, ranks, n, file, line));
  ltide_distributed_wait(L, *u);
  *group = d->group_of(*u);
  if (*group && d->uses_nccl(NULL)) connect_ranks(L, d, *group, false);
  if (!*group) lua_pushboolean(L, false);
  return 1;
}

static int lget_process_group_ranks(lua_State *L, ltide_call *c) {
  const tide_distributed *d = get_joined(L);
  tide_group *group = check_group(L, c->v[0].given ? c->v[0].at : 0);
  int n = d->size(group);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, d->group_rank(group, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

void ltide_open_distributed(lua_State *L, ltide_state *S) {
  ltide_open_class(L, &work_class);
  ltide_open_class(L, &group_class);
#include <rows/distributed.inc>
  ltide_register_in(L, "tide.distributed", distributed_rows);
}

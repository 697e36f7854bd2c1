/* frame_cost.c: how much time the work of a frame takes, of a device and of the host.
 *
 * What may queue work is a slice: a call of the host's or a turn of a job. How long a turn took the host its clock
 * says. An event before a slice and one behind it, on the stream that is current for its coroutine, tell how long the
 * device took, once they have passed; nothing waits for them. From what earlier slices have taken the next one is
 * foretold, on the device at once when it takes longer and by an eighth of the difference when it takes less, so that
 * few frames overrun. The device's time of a frame is what its own slices are expected to take, and what earlier frames
 * have left undone. Where the device waits for the host in the middle of a slice, that counts.
 *
 * A job of which the device's time is not known, because nothing of it has been measured, or that is longer than a
 * whole frame, has a turn where no other job had one before; on the device it counts as a whole frame until it is
 * measured. The first that did not fit is the first of the next frame, and has its turn there even if it does not fit
 * again: jobs may be slow beside what the host calls, but they do not stand still.
 *
 * Invariant: a slice in the ring holds two events that were recorded on one device. */
#include "frame_cost.h"

#include "tide/graph.h"

static double learnt(double cost, double measured) {
  return cost < 0 || measured > cost ? measured : cost + (measured - cost) / 8;
}

static int place_of(const void *function) { return (int)(((uintptr_t)function >> 5) % LTIDE_CALLS); }

double ltide_costs_of(const ltide_costs *t, const void *function) {
  int at = place_of(function);
  return t->call[at].function == function ? t->call[at].cost : -1;
}

static void learn(ltide_costs *t, const ltide_slice *s, int jobs, double measured) {
  for (int i = 0; i < jobs; i++)
    if (t->job[i].id == s->job) t->job[i].device = learnt(t->job[i].device, measured);
  if (!s->function) return;
  int at = place_of(s->function);
  double cost = t->call[at].function == s->function ? t->call[at].cost : -1;
  t->call[at].function = s->function, t->call[at].cost = learnt(cost, measured);
}

void ltide_costs_drop(ltide_slice *s) {
  if (!s) return;
  tide_event_release(s->begin), tide_event_release(s->end);
  s->begin = s->end = NULL;
}

static ltide_slice *at(ltide_costs *t, int i) { return &t->slice[(t->first + i) % LTIDE_SLICES]; }

/* Takes in what is done. */
static void poll(ltide_costs *t, int jobs) {
  for (; t->count; t->first = (t->first + 1) % LTIDE_SLICES, t->count--) {
    ltide_slice *s = at(t, 0);
    bool done = false;
    double ms = 0;
    tide_status status = tide_event_query(&done, s->end);
    if (status == TIDE_OK && !done) return;
    if (status == TIDE_OK) status = tide_event_elapsed(&ms, s->begin, s->end);
    if (status == TIDE_OK) learn(t, s, jobs, ms * 1000);
    ltide_costs_drop(s);
  }
}

void ltide_costs_begin(ltide_costs *t, int64_t limit, int64_t budget, int jobs) {
  t->limit = (double)limit, t->budget = (double)budget, t->behind = 0, t->ran = 0;
  poll(t, jobs);
  for (int i = 0; i < jobs; i++) t->job[i].served = false;
  for (int i = 0; limit && i < t->count; i++) t->behind += at(t, i)->expected;
  t->spent = t->behind;
}

bool ltide_costs_fits(ltide_costs *t, int turn, double left) {
  const ltide_job *job = &t->job[turn - 1];
  bool is_long = job->host > t->budget || (t->limit && (job->device < 0 || job->device > t->limit));
  bool fits = job->host <= left && (!t->limit || (job->device >= 0 && t->spent + job->device <= t->limit));
  if (!fits && (is_long || job->id == t->first_turn)) fits = !t->ran && (!t->limit || t->spent < t->limit);
  if (!fits && !job->served && !t->next_turn) t->next_turn = job->id;
  return fits;
}

/* The host's time differs from slice to slice: the mean and four times the mean deviation from it, as TCP foretells the
 * time of a round trip (RFC 6298). A thread that had to wait for its processor says little: what is longer than a frame
 * is only that. */
void ltide_costs_learn(ltide_costs *t, int turn, double host) {
  ltide_job *job = &t->job[turn - 1];
  double most = 1.125 * t->budget, took = host < most ? host : most, off = took - job->mean;
  if (job->host < 0)
    job->mean = took, job->spread = took / 8;
  else
    job->mean += off / 8, job->spread += ((off < 0 ? -off : off) - job->spread) / 4;
  job->host = job->mean + 4 * job->spread;
}

static tide_stream *stream_of(tide_current *current, int device) {
  tide_stream *stream = NULL;
  tide_current *before = tide_current_bind(current);
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (tide_current_stream(&stream, device) != TIDE_OK || tide_current_is_capturing()) stream = NULL;
  tide_current_bind(before);
  return stream;
}

static bool record(tide_event **out, tide_stream *stream) {
  if (!stream || tide_event_new(out, TIDE_EVENT_TIMING) != TIDE_OK) return false;
  if (tide_event_record(*out, stream) == TIDE_OK) return true;
  tide_event_release(*out);
  *out = NULL;
  return false;
}

ltide_slice *ltide_costs_open(ltide_costs *t, tide_current *current, int jobs) {
  if (t->count == LTIDE_SLICES) poll(t, jobs);
  ltide_slice *s = t->count < LTIDE_SLICES ? at(t, t->count) : NULL;
  return s && record(&s->begin, stream_of(current, TIDE_CURRENT)) ? s : NULL;
}

void ltide_costs_close(ltide_costs *t, ltide_slice *s, tide_current *current, double expected) {
  if (expected < 0) expected = s ? t->limit : 0; /* what cannot be measured keeps nobody waiting */
  t->spent += expected;
  if (!s) return;
  s->expected = expected;
  if (record(&s->end, stream_of(current, tide_event_device(s->begin))))
    t->count++;
  else
    ltide_costs_drop(s);
}

void ltide_costs_room(lua_State *L, ltide_costs *t, int jobs) {
  if (jobs < t->room) return;
  int room = t->room ? 2 * t->room : 16;
  ltide_job *job = lua_newuserdatauv(L, (size_t)room * sizeof *job, 0);
  if (jobs) memcpy(job, t->job, (size_t)jobs * sizeof *job);
  lua_rawsetp(L, LUA_REGISTRYINDEX, t); /* in place of the one before */
  t->job = job, t->room = room;
}

static int costs_gc(lua_State *L) {
  ltide_costs *t = lua_touserdata(L, 1);
  for (; t->count; t->count--) ltide_costs_drop(at(t, t->count - 1));
  return 0;
}

ltide_costs *ltide_costs_new(lua_State *L) {
  ltide_costs *t = lua_newuserdatauv(L, sizeof *t, 0);
  memset(t, 0, sizeof *t);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, costs_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_ref(L, LUA_REGISTRYINDEX); /* it lives as long as the state */
  return t;
}

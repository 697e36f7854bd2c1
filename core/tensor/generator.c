/* generator.c: where a sequence of random numbers stands: a seed and an offset.
 *
 * The numbers themselves come from a counter (random.h), so a generator is 16 bytes of state and every call just moves
 * the offset on by 4. Each device has a default generator, which exists whether or not the device has been opened:
 * seeding all of them needs no driver. It begins with a seed from the system's entropy, another one for each device and
 * process; a forked child takes new ones where nobody has set the seed. All Lua states of a process share these
 * generators. Other generators begin with one fixed seed.
 *
 * Several generators may stand at one place and advance it together: so a captured graph, which is tied to a generator,
 * can be led to another sequence and back.
 *
 * Invariant: two calls that are queued never get the same pair of seed and offset, whichever threads they come from. */
#include "tensor.h"

enum { CALL_STEP = 4 };
#define FIRST_SEED UINT64_C(67280421310721) /* of a generator that is not a default one */

typedef struct place {
  int64_t refs; /* of generators; those of the default ones count one more and stay */
  uint64_t seed, offset;
  bool seeded; /* by a call, not by entropy */
} place;

struct tide_generator {
  _Atomic int64_t refs;
  int device;
  bool is_default;
  place *at; /* of a default generator that was never asked for: NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of every place, and of who stands there */
static struct tide_generator defaults[TIDE_MAX_DEVICES + 1];
static place default_places[TIDE_MAX_DEVICES + 1];

/* Makes a generator at the place, or at a new one. */
static tide_status make(tide_generator **out, int device, place *at) {
  tide_generator *g = calloc(1, sizeof *g);
  if (g && !at && (at = calloc(1, sizeof *at))) at->seed = FIRST_SEED;
  if (!g || !at) {
    free(g);
    return tide__fail_memory(TIDE_CPU, sizeof *g, 0, 0, 0, 0, "Generator: no host memory, got %zu bytes refused",
                             sizeof *g);
  }
  atomic_init(&g->refs, 1);
  g->device = device;
  g->at = at;
  at->refs++;
  *out = g;
  return TIDE_OK;
}

tide_status tide_generator_new(tide_generator **out, int device) {
  TIDE_GIVEN("generator_new", out);
  TIDE_TRY(tide__device_resolve(&device, device, "Generator"));
  return make(out, device, NULL);
}

void tide_generator_retain(tide_generator *g) {
  if (!g) return;
  if (!g->is_default) tide__ref_take(&g->refs);
}

/* To be called with the lock held. */
static void leave(place *at) {
  if (--at->refs == 0) free(at);
}

void tide_generator_release(tide_generator *g) {
  if (!g || g->is_default) return;
  if (!tide__ref_drop(&g->refs)) return;
  pthread_mutex_lock(&lock);
  leave(g->at);
  pthread_mutex_unlock(&lock);
  free(g);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void parent_after_fork(void) { pthread_mutex_unlock(&lock); }

static void child_after_fork(void) {
  for (int i = 0; i <= TIDE_MAX_DEVICES; i++)
    if (defaults[i].at && !default_places[i].seeded)
      default_places[i].seed = tide_random_seed(), default_places[i].offset = 0;
  pthread_mutex_unlock(&lock);
}

/* To be called with the lock held. */
static tide_generator *default_of(int device) {
  static bool watching;
  tide_generator *g = &defaults[device + 1];
  if (!watching) watching = pthread_atfork(before_fork, parent_after_fork, child_after_fork) == 0;
  if (!g->at) {
    g->device = device, g->is_default = true;
    g->at = &default_places[device + 1];
    *g->at = (place){2, tide_random_seed(), 0, false};
  }
  return g;
}

/* To be called with the lock held. */
static void set_seed(place *at, uint64_t seed) { at->seed = seed, at->offset = 0, at->seeded = true; }

tide_status tide_generator_share(tide_generator **out, tide_generator *g) {
  TIDE_GIVEN("generator_share", out);
  TIDE_GIVEN("generator_share", g);
  TIDE_LOCKED(&lock);
  return make(out, g->device, g->at);
}

tide_status tide_generator_join(tide_generator *g, tide_generator *other) {
  TIDE_GIVEN("generator_join", g);
  TIDE_GIVEN("generator_join", other);
  if (g->device != other->device)
    return tide__fail(TIDE_DEVICE, "graphsafe_set_state: a generator of another device, got %s, expected %s",
                      tide__device_text(other->device), tide__device_text(g->device));
  TIDE_LOCKED(&lock);
  place *before = g->at;
  g->at = other->at;
  g->at->refs++;
  leave(before);
  return TIDE_OK;
}

bool tide__generator_same(const tide_generator *g, const tide_generator *other) {
  TIDE_LOCKED(&lock);
  return g->at == other->at;
}

tide_status tide_generator_default(tide_generator **out, int device) {
  TIDE_GIVEN("generator_default", out);
  TIDE_TRY(tide__device_resolve(&device, device, "default_generator"));
  TIDE_LOCKED(&lock);
  *out = default_of(device);
  return TIDE_OK;
}

tide_status tide_generator_early(tide_generator **out, int device) {
  TIDE_GIVEN("generator_early", out);
  if (device < TIDE_CPU || device >= TIDE_MAX_DEVICES)
    return tide__fail(TIDE_DEVICE, "default_generator: no such device, got %d, expected -1 to %d", device,
                      TIDE_MAX_DEVICES - 1);
  TIDE_LOCKED(&lock);
  *out = default_of(device);
  return TIDE_OK;
}

int tide_generator_device(const tide_generator *g) { return g ? g->device : TIDE_CPU; }

void tide_generator_seed(tide_generator *g, uint64_t seed) {
  if (!g) return;
  TIDE_LOCKED(&lock);
  set_seed(g->at, seed);
}

uint64_t tide_generator_get_seed(const tide_generator *g) {
  if (!g) return 0;
  TIDE_LOCKED(&lock);
  return g->at->seed;
}

uint64_t tide_generator_get_offset(const tide_generator *g) {
  if (!g) return 0;
  TIDE_LOCKED(&lock);
  return g->at->offset;
}

tide_status tide_generator_set_offset(tide_generator *g, uint64_t offset) {
  TIDE_GIVEN("generator_set_offset", g);
  if (offset % CALL_STEP)
    return tide__fail(TIDE_VALUE, "set_offset: wrong offset, got %llu, expected a multiple of %d",
                      (unsigned long long)offset, CALL_STEP);
  TIDE_LOCKED(&lock);
  g->at->offset = offset;
  return TIDE_OK;
}

void tide__generator_advance(uint64_t *seed, uint64_t *offset, tide_generator *g, uint64_t calls) {
  TIDE_LOCKED(&lock);
  *seed = g->at->seed;
  *offset = g->at->offset;
  g->at->offset += calls * CALL_STEP;
}

tide_status tide__generator_take(tide__draw *out, tide_generator *g, tide_stream *stream) {
  if (stream->capture) return tide__capture_draw(out, g, stream);
  tide__generator_advance(&out->seed, &out->offset, g, 1);
  out->state = NULL;
  return TIDE_OK;
}

void tide__generator_retreat(uint64_t seed, uint64_t offset, tide_generator *g, uint64_t calls) {
  TIDE_LOCKED(&lock);
  if (g->at->seed == seed && g->at->offset == offset + calls * CALL_STEP) g->at->offset = offset;
}

void tide__generator_untake(const tide__draw *draw, tide_generator *g, tide_stream *stream) {
  if (draw->state)
    tide__capture_undraw(draw, g, stream);
  else
    tide__generator_retreat(draw->seed, draw->offset, g, 1);
}

void tide_manual_seed(uint64_t seed) {
  TIDE_LOCKED(&lock);
  for (int device = TIDE_CPU; device < TIDE_MAX_DEVICES; device++) set_seed(default_of(device)->at, seed);
}

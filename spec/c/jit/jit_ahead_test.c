/* jit_ahead_test.c: kernels that are compiled on threads of their own, by a compiler that only copies the text. */
#include "jit/jit.h"

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/quota.h"
#include "os/os.h"
#include "tensor/tensor_test.h"

static _Atomic int begun, ended, here, loaded, loaded_here; /* here: on the thread of the test */
static _Atomic int joined, texts_joined, functions_joined;
static _Atomic bool hold;
static _Atomic int many_begun, single_at; /* of two tenants: how many of the one's, and when the other one's */
static pthread_t test_thread;

static tide_status fake_identify(char *path, size_t path_size, char *version, size_t version_size) {
  snprintf(path, path_size, "/nowhere"), snprintf(version, version_size, "1");
  return TIDE_OK;
}

static tide_status fake_arch(char *text, size_t size, int device) {
  snprintf(text, size, "arch %d", device);
  return TIDE_OK;
}

static tide_status fake_compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                                const char *arch) {
  (void)log, (void)options, (void)n, (void)arch;
  bool is_joined = !strncmp(out->name, TIDE_JOINED, sizeof TIDE_JOINED - 1);
  for (const char *p = source; is_joined && (p = strstr(p, "\nnamespace ")); p++) atomic_fetch_add(&texts_joined, 1);
  atomic_fetch_add(&joined, is_joined);
  atomic_fetch_add(&begun, 1);
  if (!strncmp(source, "many", 4)) atomic_fetch_add(&many_begun, 1);
  if (!strcmp(source, "single")) atomic_store(&single_at, atomic_load(&many_begun));
  if (pthread_equal(pthread_self(), test_thread)) atomic_fetch_add(&here, 1);
  while (!strcmp(source, "held") && atomic_load(&hold)) sched_yield();
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  atomic_fetch_add(&ended, 1);
  if (is_joined ? strstr(source, "bad") != NULL : !strcmp(source, "bad")) return tide__fail(TIDE_VALUE, "bad");
  out->bytes = strdup(source), out->size = strlen(source);
  return TIDE_OK;
}

static tide_status fake_load(void **module, const void *image, size_t bytes, int device) {
  (void)image, (void)bytes, (void)device;
  atomic_fetch_add(pthread_equal(pthread_self(), test_thread) ? &loaded_here : &loaded, 1);
  *module = &hold;
  return TIDE_OK;
}

static void fake_unload(void *module, int device) { (void)module, (void)device; }

static tide_status fake_function(void **out, tide_function_info *info, void *module, const char *name, int device) {
  (void)info, (void)device;
  atomic_fetch_add(&functions_joined, !strncmp(name, TIDE_JOINED, sizeof TIDE_JOINED - 1));
  *out = module;
  return TIDE_OK;
}

static const tide_image_loader fake_loader = {fake_arch, fake_load, fake_unload, fake_function, NULL};
static tide_compiler fake = {.name = "fake",
                             .ahead = true,
                             .options = "-x",
                             .identify = fake_identify,
                             .compile = fake_compile,
                             .loader = &fake_loader};

static tide__jit_request request(const char *source) {
  return (tide__jit_request){.what = "test", .source = source, .name = "tide_kernel"};
}

static void begin(const char *source) {
  const tide__jit_request r = request(source);
  tide__jit_ahead(&r, &fake, 0, TIDE_WISH_GUESS);
}

static void begin_and_see(const char *source) {
  int before = atomic_load(&begun);
  begin(source);
  while (atomic_load(&begun) == before) sched_yield();
}

static bool take(const char *source) {
  tide_image image = {0};
  const tide__jit_request r = request(source);
  bool found = tide__jit_ahead_take(&image, &r, &fake, "arch 0", true) == TIDE_AHEAD_TAKEN;
  CHECK(!found || !strcmp(image.bytes, source));
  free(image.bytes);
  return found;
}

/* Never waits; what differs in an option is another kernel. */
static void test_pending(void) {
  const char *const one[] = {"-DN=1"}, *const two[] = {"-DN=2"};
  tide__jit_request r = request("pending"), other = r, bad = request("bad");
  tide_image image = {0};
  r.options = one, r.options_count = 1, other.options = two, other.options_count = 1;
  CHECK(tide__jit_ahead_take(&image, &r, &fake, "arch 0", false) == TIDE_AHEAD_NONE);
  CHECK(tide__jit_ahead(&r, &fake, 0, TIDE_WISH_GUESS) == TIDE_AHEAD_PENDING);
  CHECK(tide__jit_ahead_take(&image, &r, &fake, "arch 0", false) == TIDE_AHEAD_PENDING);
  CHECK(tide__jit_ahead_take(&image, &other, &fake, "arch 0", false) == TIDE_AHEAD_NONE);
  tide__ahead state;
  while ((state = tide__jit_ahead_take(&image, &r, &fake, "arch 0", false)) == TIDE_AHEAD_PENDING) sched_yield();
  CHECK(state == TIDE_AHEAD_NONE && !image.bytes && atomic_load(&loaded) == 1); /* it is in memory */
  CHECK(tide__jit_ahead(&bad, &fake, 0, TIDE_WISH_GUESS) == TIDE_AHEAD_PENDING);
  while ((state = tide__jit_ahead_take(&image, &bad, &fake, "arch 0", false)) == TIDE_AHEAD_PENDING) sched_yield();
  CHECK(state == TIDE_AHEAD_FAILED && tide_error_get()->status == TIDE_VALUE);
  CHECK(tide__jit_ahead_take(&image, &bad, &fake, "arch 0", false) == TIDE_AHEAD_NONE);
}

static tide_status ready(bool *out, const tide__jit_request *r) {
  tide__function f;
  tide_status status = tide__jit_function(&f, r, &fake, 0);
  *out = status == TIDE_OK && f.handle;
  if (!*out) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  return status;
}

/* What the disk has is loaded by a thread, too, and does not count as a compilation; a function of the host's, which
 * waits for no device, at once. */
static void test_stored(void) {
  char folder[] = "/tmp/tide_ahead_XXXXXX";
  const tide__jit_request r = request("stored");
  tide_jit_stats before, after;
  tide_quota *quota;
  bool is = false;
  CHECK(mkdtemp(folder));
  setenv("TIDE_KERNEL_CACHE_PATH", folder, 1);
  unsetenv("TIDE_KERNEL_CACHE");
  OK(ready(&is, &r));
  CHECK(is && atomic_exchange(&here, 0) == 1);
  tide__jit_unload(true);
  OK(tide_quota_new(&quota));
  tide_quota_limit(quota, TIDE_QUOTA_COMPILES, 0);
  tide__quota_bind(quota);
  int by_threads = atomic_load(&loaded), by_us = atomic_load(&loaded_here);
  tide_jit_get_stats(&before);
  tide__jit_elsewhere = true;
  OK(ready(&is, &r));
  CHECK(!is);
  for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &r));
  CHECK(is && atomic_load(&loaded) == by_threads + 1 && atomic_load(&loaded_here) == by_us);
  tide_jit_get_stats(&after);
  CHECK(after.disk_hits == before.disk_hits + 1 && after.misses == before.misses);
  tide__jit_unload(true);
  fake.host = true;
  OK(ready(&is, &r));
  CHECK(is && atomic_load(&loaded_here) == by_us + 1);
  fake.host = false;
  tide__jit_elsewhere = false;
  tide__quota_bind(NULL);
  tide_quota_release(quota);
  OK(tide_jit_cache_clear());
  rmdir(folder);
  unsetenv("TIDE_KERNEL_CACHE_PATH");
  setenv("TIDE_KERNEL_CACHE", "0", 1);
}

/* It is compiled by a thread, which may take some seconds. */
static bool comes(const char *source) {
  const tide__jit_request r = request(source);
  bool is = false;
  tide__jit_elsewhere = true;
  for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &r));
  return is && !atomic_load(&here);
}

/* Where nothing may wait, no driver is asked to load either: the thread that compiled does it, also what a guess has
 * begun or made before it was asked for. What may include anything is known by its image alone: the caller loads it. */
static void test_loading(void) {
  const char *const search[] = {"-I", "/nowhere"};
  const char *const sources[] = {"asked", "guessed", "made"};
  bool is = false;
  tide_jit_stats before, after;
  int by_threads = atomic_load(&loaded);
  tide__jit_elsewhere = true;
  tide_jit_get_stats(&before);
  for (int i = 0; i < 3; i++) {
    const tide__jit_request r = request(sources[i]);
    if (i) begin_and_see(sources[i]);
    if (i == 2) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    OK(ready(&is, &r));
    CHECK(!is);
    for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &r));
    CHECK(is && atomic_load(&loaded) == by_threads + i + 1 && !atomic_load(&loaded_here));
  }
  tide_jit_get_stats(&after);
  CHECK(after.ahead == before.ahead + 3 && after.misses == before.misses + 3);
  tide__jit_request any = request("\n#include TEXT\n");
  any.options = search, any.options_count = 2;
  is = false;
  for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &any));
  CHECK(is && atomic_load(&loaded) == by_threads + 3 && atomic_load(&loaded_here) == 1 && !atomic_load(&here));
  tide__jit_elsewhere = false;
}

/* ---- several at once ---- */

static void settle(void) {
  for (int ms = 0; tide__jit_ahead_pending() && ms < 5000; ms++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  CHECK(!tide__jit_ahead_pending());
}

/* Every thread is busy until `hold` ends. */
static void hold_threads(void) {
  settle();
  int half = tide__os_processors(false) / 2;
  atomic_store(&hold, true);
  for (int i = 0; i < (half < 1 ? 1 : half > 8 ? 8 : half); i++) begin_and_see("held");
}

static tide__jit_request own(const char *source) {
  tide__jit_request r = request(source);
  r.ours = true;
  return r;
}

static void begin_own(const char *source) {
  const tide__jit_request r = own(source);
  CHECK(tide__jit_ahead(&r, &fake, 0, TIDE_WISH_GUESS) == TIDE_AHEAD_PENDING);
}

/* Whose text stands in an image that the function with that name is of. */
static bool took_own(const char *source, const char *name) {
  tide_image image = {0};
  const tide__jit_request r = own(source);
  tide__ahead state = tide__jit_ahead_take(&image, &r, &fake, "arch 0", true);
  bool good =
      state == TIDE_AHEAD_TAKEN && memmem(image.bytes, image.size, source, strlen(source)) && !strcmp(image.name, name);
  free(image.bytes);
  return good;
}

static void wait_for(const _Atomic int *count, int least) {
  for (int ms = 0; atomic_load(count) < least && ms < 20000; ms++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  CHECK(atomic_load(count) == least);
}

/* Six wait for the first thread that is free: it takes four, the next one two. */
static void test_joined(void) {
  static const char *const text[] = {"text 0", "text 1", "text 2", "text 3", "text 4", "text 5"};
  static const char *const name[] = {TIDE_JOINED "0", TIDE_JOINED "1", TIDE_JOINED "2", TIDE_JOINED "3"};
  int so_far = atomic_load(&begun);
  hold_threads();
  int held = atomic_load(&begun) - so_far;
  for (int i = 0; i < 6; i++) begin_own(text[i]);
  atomic_store(&hold, false);
  wait_for(&begun, so_far + held + 2);
  CHECK(atomic_load(&joined) == 2 && atomic_load(&texts_joined) == 6);
  for (int i = 0; i < 6; i++) CHECK(took_own(text[i], name[i % 4]));
}

/* A state that has queued forty texts does not hold up another one's. */
static void test_turns(void) {
  enum { MANY = 40 };
  tide_quota *quota[2];
  char text[16];
  hold_threads();
  int so_far = atomic_load(&begun);
  for (int k = 0; k < 2; k++) {
    OK(tide_quota_new(&quota[k]));
    tide__quota_bind(quota[k]);
    for (int i = 0; i < (k ? 1 : MANY); i++) {
      snprintf(text, sizeof text, k ? "single" : "many %d", i);
      begin(text);
    }
  }
  tide__quota_bind(NULL);
  atomic_store(&hold, false);
  wait_for(&begun, so_far + MANY + 1);
  CHECK(atomic_load(&single_at) < MANY / 2);
  for (int k = 0; k < 2; k++) tide_quota_release(quota[k]);
}

/* A text that is refused spoils itself alone. */
static void test_joined_bad(void) {
  tide_image image = {0};
  const tide__jit_request bad = own("bad");
  int before = atomic_load(&joined);
  hold_threads();
  int so_far = atomic_load(&begun);
  begin_own("good 0"), begin_own("bad"), begin_own("good 1");
  atomic_store(&hold, false);
  wait_for(&begun, so_far + 4);
  CHECK(atomic_load(&joined) == before + 1);
  CHECK(took_own("good 0", "tide_kernel") && took_own("good 1", "tide_kernel"));
  CHECK(tide__jit_ahead_take(&image, &bad, &fake, "arch 0", true) == TIDE_AHEAD_FAILED && !image.bytes);
}

/* A user's text, and what is compiled with other options, is a program of its own. */
static void test_joined_others(void) {
  const char *const one[] = {"-DN=1"};
  tide__jit_request other = own("theirs 2");
  int before = atomic_load(&joined);
  other.options = one, other.options_count = 1;
  hold_threads();
  int so_far = atomic_load(&begun);
  begin("theirs 0"), begin("theirs 1"), begin_own("ours");
  CHECK(tide__jit_ahead(&other, &fake, 0, TIDE_WISH_GUESS) == TIDE_AHEAD_PENDING);
  atomic_store(&hold, false);
  wait_for(&begun, so_far + 4);
  CHECK(atomic_load(&joined) == before && take("theirs 0") && take("theirs 1") && took_own("ours", "tide_kernel"));
}

/* Each is loaded by the thread that made it, and found on the disk by itself. */
static void test_joined_stored(void) {
  char folder[] = "/tmp/tide_ahead_XXXXXX";
  static const char *const text[] = {"kept 0", "kept 1", "kept 2"};
  tide_jit_stats before, after;
  bool is;
  CHECK(mkdtemp(folder));
  setenv("TIDE_KERNEL_CACHE_PATH", folder, 1);
  unsetenv("TIDE_KERNEL_CACHE");
  hold_threads();
  tide__jit_elsewhere = true;
  int programs = atomic_load(&joined), functions = atomic_load(&functions_joined);
  tide_jit_get_stats(&before);
  for (int i = 0; i < 3; i++) {
    const tide__jit_request r = own(text[i]);
    OK(ready(&is, &r));
    CHECK(!is);
  }
  atomic_store(&hold, false);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < 3; i++) {
      const tide__jit_request r = own(text[i]);
      is = false;
      for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &r));
      CHECK(is);
    }
    settle(); /* it is ready before it is stored */
    tide_jit_get_stats(&after);
    CHECK(after.stored == before.stored + 3 && after.disk_hits == before.disk_hits + 3 * pass);
    CHECK(atomic_load(&joined) == programs + 1 && atomic_load(&functions_joined) == functions + 3 * (pass + 1));
    tide__jit_unload(true);
  }
  tide__jit_elsewhere = false;
  OK(tide_jit_cache_clear());
  rmdir(folder);
  unsetenv("TIDE_KERNEL_CACHE_PATH");
  setenv("TIDE_KERNEL_CACHE", "0", 1);
}

static void test_all_joined(void) {
  fake.joins = true;
  test_joined();
  test_turns();
  test_joined_bad();
  test_joined_others();
  test_joined_stored();
  fake.joins = false;
}

static void *take_one(void *count) { /* CHECK is for one thread */
  tide_image image = {0};
  const tide__jit_request r = request("one");
  if (tide__jit_ahead_take(&image, &r, &fake, "arch 0", true) == TIDE_AHEAD_TAKEN)
    atomic_fetch_add((_Atomic int *)count, 1);
  free(image.bytes);
  return NULL;
}

#ifdef __SANITIZE_THREAD__
static const bool threads_in_a_child = false;
#else
static const bool threads_in_a_child = true;
#endif

/* In a child: how it ends. */
static bool child_ends_well(void (*fn)(void)) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) fn();
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void child_has_nothing(void) {
  bool good = !take("one");
  tide__jit_ahead_stop();
  begin_and_see("two");
  _exit(!(good && take("two")));
}

static void child_exits_meanwhile(void) {
  begin_and_see("two");
  exit(0); /* waits for the compiler; a kernel that is not begun is dropped */
}

static void child_begins(void) { _exit(!comes("two")); }

static void *stop(void *unused) {
  tide__jit_ahead_stop();
  return unused;
}

/* Is nothing begun any more? */
static bool stops(void) {
  static int probes;
  char text[24];
  snprintf(text, sizeof text, "probe %d", probes++);
  const tide__jit_request r = request(text);
  tide_image image = {0};
  begin(text);
  tide__ahead state = tide__jit_ahead_take(&image, &r, &fake, "arch 0", false);
  free(image.bytes);
  return state == TIDE_AHEAD_NONE;
}

/* What a stop drops counts once: with the call that begins it again. */
static void drop_many(const tide_quota *quota, int64_t before) {
  enum { MANY = 60 };
  char text[MANY][16];
  bool is = false;
  int by_threads = atomic_load(&loaded);
  for (int i = 0; i < MANY; i++) {
    snprintf(text[i], sizeof text[i], "dropped %d", i);
    const tide__jit_request r = request(text[i]);
    OK(ready(&is, &r));
  }
  CHECK(tide_quota_used(quota, TIDE_QUOTA_COMPILES) == before + MANY);
  uint32_t told = atomic_load(&tide__jit_ended), ran = (uint32_t)atomic_load(&loaded);
  tide__jit_ahead_stop();
  CHECK(atomic_load(&tide__jit_ended) - told > (uint32_t)atomic_load(&loaded) - ran);
  int done = atomic_load(&loaded) - by_threads;
  CHECK(done < MANY && tide_quota_used(quota, TIDE_QUOTA_COMPILES) == before + done);
  for (int i = 0; i < MANY; i++) {
    const tide__jit_request r = request(text[i]);
    is = false;
    for (int ms = 0; !is && ms < 5000; ms++) OK(ready(&is, &r));
    CHECK(is);
  }
  CHECK(tide_quota_used(quota, TIDE_QUOTA_COMPILES) == before + MANY);
}

/* The threads are being stopped, which waits for a compilation: what may not wait is begun by a later call, counts
 * then, and finds threads. */
static void test_stopping(void) {
  const tide__jit_request r = request("later"), after = request("after");
  tide__function f;
  tide_quota *quota;
  pthread_t thread;
  OK(tide_quota_new(&quota));
  atomic_store(&hold, true);
  begin_and_see("held");
  CHECK(pthread_create(&thread, NULL, stop, NULL) == 0);
  while (!stops()) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  for (int i = 0; i < 20; i++) begin("nothing");
  if (threads_in_a_child) CHECK(child_ends_well(child_begins));
  tide__quota_bind(quota);
  tide__jit_elsewhere = true;
  OK(tide__jit_function(&f, &r, &fake, 0));
  CHECK(!f.handle && !atomic_load(&here) && tide_quota_used(quota, TIDE_QUOTA_COMPILES) == 0);
  int64_t before = tide_quota_used(quota, TIDE_QUOTA_COMPILES);
  uint32_t told = atomic_load(&tide__jit_ended); /* who asks again only when it has changed is not left waiting */
  atomic_store(&hold, false);
  pthread_join(thread, NULL);
  CHECK(atomic_load(&tide__jit_ended) != told);
  f.handle = NULL;
  for (int ms = 0; !f.handle && ms < 5000; ms++) {
    OK(tide__jit_function(&f, &after, &fake, 0));
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  CHECK(f.handle && !atomic_load(&here) && tide_quota_used(quota, TIDE_QUOTA_COMPILES) == before + 1);
  before = tide_quota_used(quota, TIDE_QUOTA_COMPILES);
  drop_many(quota, before);
  const tide__jit_request reset = request("reset");
  OK(tide__jit_function(&f, &reset, &fake, 0));
  tide_quota_limit(quota, TIDE_QUOTA_COMPILES, -1);
  tide__jit_ahead_stop();
  CHECK(tide_quota_used(quota, TIDE_QUOTA_COMPILES) == 0);
  tide_quota_limit(quota, TIDE_QUOTA_COMPILES, 0);
  FAILS(TIDE_QUOTA, tide__jit_function(&f, &r, &fake, 0));
  tide__jit_elsewhere = false;
  tide__quota_bind(NULL);
  tide_quota_release(quota);
}

static void test_ahead(void) {
  _Atomic int count = 0;
  pthread_t thread[4];
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  CHECK(!take("one"));
  begin_and_see("one");
  CHECK(!take("another"));
  CHECK(take("one") && atomic_load(&ended) == 1 && !take("one"));
  begin_and_see("bad");
  CHECK(!take("bad"));
  test_pending();
  begin_and_see("one");
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, take_one, &count) == 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  CHECK(atomic_load(&count) == 1);
  if (threads_in_a_child) {
    begin_and_see("one");
    CHECK(child_ends_well(child_has_nothing));
    CHECK(take("one"));
    CHECK(child_ends_well(child_exits_meanwhile));
  }
  test_loading();
  test_stored();
  test_all_joined();
  test_stopping();
  char text[16];
  int so_far = atomic_load(&begun);
  for (int i = 0; i < 300; i++) snprintf(text, sizeof text, "%d", i), begin(text);
  CHECK(!take("250")); /* not begun: the caller does it */
  tide__jit_ahead_stop();
  CHECK(atomic_load(&begun) == atomic_load(&ended) && atomic_load(&begun) - so_far < 100 && !take("0") && !take("299"));
  begin_and_see("one");
  CHECK(take("one"));
  begin("one");
  unsetenv("TIDE_KERNEL_CACHE"); /* and the runtime ends */
}

/* What asks whether a kernel is ready may stand in another such question. */
static void test_asked_within(void) {
  static const char code[] = "template <typename T> T f(T x) { return x; }";
  const tide_raw_kernel_text text = {
      .struct_size = sizeof text, .source = "__global__ void k(int *x) { *x = 1; }", .name = "k"};
  const tide_options options = {TIDE_FLOAT64, TIDE_CPU, false};
  bool ready;
  tide_tensor *x = NULL;
  tide_jit *j = NULL;
  tide_raw_kernel *k = NULL;
  OK(tide_jit_new(&j, code, NULL, NULL, 0, 0));
  OK(tide_arange(&x, tide_int(0), tide_int(1), 3, &options));
  tide__jit_elsewhere = true;
  (void)!tide_jit_ready(&ready, j, &x, 1, NULL);
  CHECK(tide__jit_elsewhere);
  tide__jit_elsewhere = true;
  if (tide_raw_kernel_new(&k, &text) == TIDE_OK) (void)!tide_raw_kernel_ready(&ready, k, TIDE_CPU);
  CHECK(tide__jit_elsewhere);
  tide__jit_elsewhere = false;
  tide_raw_kernel_free(k), tide_jit_free(j), tide_tensor_release(x);
}

int main(void) {
  test_thread = pthread_self();
  OK(tide_init(NULL));
  test_ahead();
  test_asked_within();
  tide_shutdown();
  printf("jit_ahead_test: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}

/* os_test.c: what the room for the operating system promises. It needs no other part of tide, so that it is built for
 * another system, and run there, before anything else is. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#ifndef _WIN32
#  include <fcntl.h>
#  include <sys/stat.h>
#endif

#include "os/file.h"
#include "os/os.h"
#include "os/process.h"
#include "os/stack.h"

static int failures;
#define CHECK(x)                                                                                                       \
  do {                                                                                                                 \
    if (!(x)) failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                      \
  } while (0)

static bool zeros(const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (at[i]) return false;
  return true;
}

static void test_pages(void) {
  const size_t bytes = 3 << 20, aligns[] = {0, 65536, (size_t)2 << 20, (size_t)16 << 20};
  for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
    char *at = tide__os_map(bytes, aligns[i]);
    CHECK(at && (!aligns[i] || (uintptr_t)at % aligns[i] == 0));
    if (!at) continue;
    CHECK(zeros(at, bytes));
    memset(at, 7, bytes);
    tide__os_huge(at, bytes);
    CHECK(at[0] == 7 && at[bytes - 1] == 7);
    tide__os_unmap(at, bytes);
  }
  CHECK(!tide__os_map((size_t)1 << 62, 0));

  char *range = tide__os_reserve((size_t)1 << 32);
  CHECK(range != NULL);
  if (!range) return;
  for (int round = 0; round < 2; round++) {
    char *at = range + ((size_t)1 << 31);
    CHECK(tide__os_back(at, 1 << 20));
    CHECK(zeros(at, 1 << 20)); /* the second time, too */
    memset(at, 1, 1 << 20);
    tide__os_unback(at, 1 << 20);
  }
  tide__os_unmap(range, (size_t)1 << 32);
}

static void test_aligned(void) {
  for (size_t align = 16; align <= (size_t)2 << 20; align *= 2) {
    char *p = tide__os_aligned(align, 1000);
    CHECK(p && (uintptr_t)p % align == 0);
    if (p) memset(p, 1, 1000);
    tide__os_aligned_free(p);
  }
}

static void test_machine(void) {
  size_t unused = 0, total = 0;
  tide__os_memory(&unused, &total);
  CHECK(total > (size_t)1 << 26 && unused <= total);
  CHECK(tide__os_processors(true) >= 1 && tide__os_processors(false) >= 1);
  CHECK(tide__os_cache(2) >= 0 && tide__os_cache(3) >= 0);
  uint64_t a[4] = {0}, b[4] = {0};
  CHECK(tide__os_random(a, sizeof a) && tide__os_random(b, sizeof b));
  CHECK(memcmp(a, b, sizeof a) != 0 && (a[3] || b[3]));
}

static void test_time(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec then;
  int64_t begun = tide__os_coarse_ms();
  clock_gettime(CLOCK_MONOTONIC, &then);
  then.tv_nsec += 60000000;
  if (then.tv_nsec >= 1000000000) then.tv_sec++, then.tv_nsec -= 1000000000;
  pthread_mutex_lock(&mutex);
  tide__os_wait_until(&condition, &mutex, &then);
  pthread_mutex_unlock(&mutex);
  int64_t passed = tide__os_coarse_ms() - begun;
  CHECK(passed >= 30 && passed < 60000);
  then.tv_sec -= 10; /* over already */
  pthread_mutex_lock(&mutex);
  tide__os_wait_until(&condition, &mutex, &then);
  pthread_mutex_unlock(&mutex);
}

/* Two threads that store and then look at each other's: with the barrier of one of them at least one sees the other. */
static _Atomic int ready, here, there, seen_there;
enum { ROUNDS = 2000 };

static void *other(void *unused) {
  for (int i = 1; i <= ROUNDS; i++) {
    while (atomic_load(&ready) < i) {}
    atomic_store_explicit(&there, i, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    int seen = atomic_load_explicit(&here, memory_order_relaxed);
    atomic_store(&seen_there, seen == i ? i : -i);
  }
  return unused;
}

static void test_barrier(void) {
  pthread_t thread;
  if (!tide__os_barrier_prepare() || pthread_create(&thread, NULL, other, NULL)) return;
  int both_blind = 0;
  for (int i = 1; i <= ROUNDS; i++) {
    atomic_store(&ready, i);
    atomic_store_explicit(&here, i, memory_order_relaxed);
    tide__os_barrier();
    bool saw = atomic_load_explicit(&there, memory_order_relaxed) == i;
    int told;
    do { told = atomic_load(&seen_there); } while (told != i && told != -i);
    both_blind += !saw && told != i;
  }
  pthread_join(thread, NULL);
  CHECK(both_blind == 0);
}

static int local;

static void test_code(void) {
  char program[4096], same[4096];
  CHECK(tide__os_file_of(program, sizeof program, NULL) && strstr(program, "os_test"));
  CHECK(tide__os_file_of(same, sizeof same, (const void *)(uintptr_t)test_code) && !strcmp(program, same));
  CHECK(!tide__os_file_of(program, 4, NULL));
  CHECK(!tide__os_library("no/such/library", true) && *tide__os_library_problem());
#ifdef _WIN32
  const char *name = "kernel32.dll", *symbol = "GetTickCount";
#elif defined(__APPLE__)
  const char *name = "libSystem.B.dylib", *symbol = "malloc";
#else
  const char *name = "libm.so.6", *symbol = "cos";
#endif
  void *library = tide__os_library(name, false);
  CHECK(library && tide__os_symbol(library, symbol) && !tide__os_symbol(library, "no_such_symbol"));
  CHECK(!library || tide__os_symbol(library, symbol) != (void *)&local);
  if (library) tide__os_library_close(library);
}

/* ---- files ---- */

static char folder[256];

static const char *in_folder(const char *name) {
  static char path[2][512];
  static int turn;
  turn ^= 1;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static int put(const char *name, int how, const char *text) {
  int file = tide__os_open(in_folder(name), how);
  if (file < 0) return errno;
  bool good = tide__os_write(file, text, strlen(text));
  return tide__os_close(file) == 0 && good ? 0 : -1;
}

static bool holds(const char *name, const char *text) {
  char got[64] = "";
  tide__os_about about;
  int file = tide__os_open(in_folder(name), TIDE_OS_READ | TIDE_OS_NOW);
  if (file < 0) return false;
  bool good = !tide__os_look_at(&about, file) && about.kind == TIDE_OS_FILE && about.bytes == (int64_t)strlen(text) &&
              about.seconds > 1600000000 && about.nanoseconds >= 0 && about.nanoseconds < 1000000000 &&
              tide__os_read(file, got, strlen(text)) && !strcmp(got, text) && !tide__os_read(file, got, 1);
  tide__os_close(file);
  return good;
}

static void count_names(void *user, const char *name) { *(int *)user += strcmp(name, ".") && strcmp(name, ".."); }

static void test_files(void) {
  tide__os_about about;
  int names = 0;
  CHECK(put("a", TIDE_OS_WRITE, "no") == ENOENT);
  CHECK(put("a", TIDE_OS_WRITE | TIDE_OS_NEW | TIDE_OS_OWN, "first\r\n\x1a.") == 0 && holds("a", "first\r\n\x1a."));
  CHECK(put("a", TIDE_OS_WRITE | TIDE_OS_NEW, "no") == EEXIST);
  CHECK(put("a", TIDE_OS_WRITE | TIDE_OS_MAKE, "F") == 0 && holds("a", "First\r\n\x1a."));
  CHECK(put("a", TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY, "second") == 0 && holds("a", "second"));
  CHECK(put("b", TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY, "third") == 0);
  tide__os_folder_list(folder, count_names, &names);
  CHECK(names == 2);
  tide__os_folder_list(in_folder("none"), count_names, &names);
  CHECK(names == 2);

  CHECK(!tide__os_access(in_folder("a"), 0) && !tide__os_access(in_folder("a"), TIDE_OS_READ | TIDE_OS_WRITE));
  CHECK(tide__os_access(in_folder("none"), 0) == ENOENT && !tide__os_is_link(in_folder("a")));
  CHECK(!tide__os_look(&about, folder) && about.kind == TIDE_OS_FOLDER);
  CHECK(tide__os_look(&about, in_folder("none")) == ENOENT);
  char *real = tide__os_real_path(in_folder("./a")), *same = tide__os_real_path(in_folder("a"));
  CHECK(real && same && !strcmp(real, same) && strstr(real, "/a"));
  free(real), free(same);
  CHECK(!tide__os_real_path(in_folder("none")) && errno == ENOENT);

#ifndef _WIN32
  for (int k = 0; k < 3; k++) { /* the time of the last change, to the nanosecond; other times are others */
    const struct timespec times[2] = {{1700000000 + k, 123 + k}, {1600000000 + k, 987654321 - k}};
    CHECK(!utimensat(AT_FDCWD, in_folder("a"), times, 0) && !tide__os_look(&about, in_folder("a")));
    CHECK(about.seconds == 1600000000 + k && about.nanoseconds == 987654321 - k);
  }
  CHECK(!tide__os_look(&about, "/dev/null") && about.kind == TIDE_OS_OTHER);
#endif

  /* one takes the place of another while it is open, and is found under the name then */
  int b = tide__os_open(in_folder("b"), TIDE_OS_READ | TIDE_OS_WRITE), a = tide__os_open(in_folder("a"), TIDE_OS_READ);
  char name[512];
  CHECK(tide__os_name(name, sizeof name, b) && !tide__os_look(&about, name) && about.bytes == 5);
  CHECK(tide__os_rename(in_folder("b"), in_folder("c")) == 0 && tide__os_rename(in_folder("none"), in_folder("c")));
  CHECK(!tide__os_sync(b) && !tide__os_copy(b, a, 6) && !tide__os_room(b, 9) && !tide__os_resize(b, 5));
  tide__os_rights(b, in_folder("a"));
  tide__os_close(a), tide__os_close(b);
  CHECK(holds("c", "secon"));
  CHECK(put("b", TIDE_OS_WRITE | TIDE_OS_MAKE, "new") == 0 && !tide__os_rename(in_folder("b"), in_folder("c")) &&
        holds("c", "new"));
  CHECK(tide__os_folder_remove(folder) != 0); /* it holds something */
}

static void test_maps(void) {
  for (int shared = 0; shared < 2; shared++) {
    CHECK(put("map", TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY, "0123456789") == 0);
    int file = tide__os_open(in_folder("map"), TIDE_OS_READ | (shared ? TIDE_OS_WRITE : 0));
    char *at = tide__os_map_file(file, 10, shared);
    tide__os_close(file);
    CHECK(at && !memcmp(at, "0123456789", 10));
    if (!at) continue;
    memcpy(at, "abc", 3);
    tide__os_unmap_file(at, 10);
    CHECK(holds("map", shared ? "abc3456789" : "0123456789"));
  }
  CHECK(!remove(in_folder("map")) && remove(in_folder("map")) && errno == ENOENT);
}

static void test_streams(void) {
  tide__os_text text = {0};
  CHECK(tide__os_text_begin(&text));
  fprintf(text.stream, "%d\n", 12345);
  CHECK(tide__os_text_end(&text) && text.bytes == 6 && !strcmp(text.at, "12345\n"));
  free(text.at);
  FILE *one = tide__os_temporary(), *two = tide__os_temporary();
  char got[8] = "";
  CHECK(one && two && fputs("one", one) >= 0 && fputs("other", two) >= 0);
  rewind(one);
  CHECK(fread(got, 1, sizeof got, one) == 3 && !strcmp(got, "one"));
  fclose(one), fclose(two);
}

static void test_shares(void) {
  tide__os_share name;
  CHECK(tide__os_share_new(&name, 5000) && name.process == tide__os_self());
  int file = tide__os_share_open(&name);
  char *one = tide__os_share_map(name.file, 5000), *two = tide__os_share_map(file, 5000);
  CHECK(file >= 0 && one && two && one != two && zeros(two, 5000));
  one[4999] = 7;
  CHECK(two[4999] == 7);
  if (TIDE_OS_SHARES_PAGES) {
    char *range = tide__os_reserve(65536);
    CHECK(tide__os_share_pages(range + 16384, 8192, file) && range[16384 + 4999] == 7);
    tide__os_share_leave(range + 16384, 8192);
    tide__os_unmap(range, 65536);
  }
  tide__os_share_unmap(two, 5000), tide__os_share_unmap(one, 5000);
  tide__os_share_close(file);
  tide__os_share other = name;
  other.key ^= 1;
  CHECK(tide__os_share_open(&other) < 0);
  tide__os_share_close(name.file);
  CHECK(tide__os_share_open(&name) < 0);
}

/* ---- programs: this one, which is told what to do ---- */

static char self[4096];
static char *const words[] = {"two words", "a\"quote", "back\\slash\\", "", "\\\"", NULL};

static int as_child(int n, char **arguments) {
  FILE *task = tide__os_task();
  char text[64] = "";
  if (task) {
    size_t got = fread(text, 1, sizeof text - 1, task);
    rewind(task);
    fprintf(task, "%zu %s", got, getchar() == EOF ? "nothing to read" : "something to read");
    fclose(task);
  }
  for (int i = 2; i < n; i++)
    if (!words[i - 2] || strcmp(arguments[i], words[i - 2])) return 3;
  printf("to the output\n");
  fprintf(stderr, "to the other\n");
  if (!strcmp(arguments[1], "sleep")) tide__os_sleep(60);
  return task ? 7 : 5;
}

static tide__os_end wait_for(int *status, pid_t process) {
  tide__os_end end = TIDE_OS_RUNS;
  for (int i = 0; i < 30000 && end == TIDE_OS_RUNS; i++, tide__os_sleep(1e-3))
    end = tide__os_ended(status, process, false);
  return end;
}

static void test_programs(void) {
  char *arguments[] = {self, "child", words[0], words[1], words[2], words[3], words[4], NULL};
  char text[64] = "";
  pid_t process = 0;
  int status = 0;
  FILE *task = tide__os_task_new();
  CHECK(task && fputs("a task", task) >= 0 && !fflush(task));
  rewind(task);
  CHECK(!tide__os_start(&process, self, arguments, task, NULL) && process > 0);
  CHECK(wait_for(&status, process) == TIDE_OS_ENDED);
  CHECK(tide__os_exit_code(status) == 7 && !tide__os_alive((int32_t)process));
  rewind(task);
  CHECK(fread(text, 1, sizeof text - 1, task) > 0 && !strcmp(text, "6 nothing to read"));
  fclose(task);

  CHECK(!tide__os_start(&process, self, arguments, NULL, in_folder("log")));
  CHECK(tide__os_ended(&status, process, true) == TIDE_OS_ENDED && tide__os_exit_code(status) == 5);
  CHECK(tide__os_ended(&status, process, false) == TIDE_OS_LOST);
  FILE *log = fopen(in_folder("log"), "rb");
  size_t got = log ? fread(text, 1, sizeof text - 1, log) : 0;
  CHECK(got > 0 && (text[got] = 0, strstr(text, "to the output")) && strstr(text, "to the other"));
  if (log) fclose(log);
  remove(in_folder("log"));

  char *sleeper[] = {self, "sleep", NULL};
  for (int at_once = 0; at_once < 2; at_once++) {
    CHECK(!tide__os_start(&process, self, sleeper, NULL, in_folder("log")));
    CHECK(tide__os_ended(&status, process, false) == TIDE_OS_RUNS && tide__os_alive((int32_t)process));
    tide__os_stop(process, at_once);
    CHECK(wait_for(&status, process) == TIDE_OS_ENDED && tide__os_exit_code(status) == -1);
  }
  remove(in_folder("log"));
  CHECK(tide__os_start(&process, in_folder("none"), arguments, NULL, NULL) == ENOENT);
  CHECK(tide__os_alive(tide__os_self()) && !tide__os_task());
  CHECK(!tide__os_program(text, sizeof text, folder, "none") &&
        !tide__os_program(text, sizeof text, NULL, "no-such-one"));
}

/* A library once more, from its bytes. */
static void test_code_from_bytes(void) {
#ifdef _WIN32
  void *library = tide__os_library("version.dll", true), *symbol = tide__os_symbol(library, "VerQueryValueA");
  const char *name = "VerQueryValueA";
#else
  void *library = NULL, *symbol = (void *)(uintptr_t)cos;
  const char *name = "cos";
#endif
  char path[4096];
  CHECK(symbol && tide__os_file_of(path, sizeof path, symbol));
  FILE *f = fopen(path, "rb");
  if (!f || strstr(path, "os_test")) return; /* linked in */
  char *bytes = malloc(16 << 20);
  size_t n = fread(bytes, 1, 16 << 20, f);
  fclose(f);
  void *one = tide__os_code(bytes, n), *two = tide__os_code(bytes, n);
  CHECK(one && two && one != two && tide__os_symbol(one, name) != symbol);
  CHECK(one && two && tide__os_symbol(one, name) != tide__os_symbol(two, name));
  if (one) tide__os_code_close(one);
  if (two) tide__os_code_close(two);
  CHECK(!tide__os_code("no library", 10) && !errno && *tide__os_library_problem());
  free(bytes);
  if (library) tide__os_library_close(library);
}

/* ---- stacks ---- */

static tide__os_place here_place, there_place;
static int steps[8], taken;

static TIDE_OS_UNWATCHED void on_own_stack(void) {
  for (int i = 0;; i++) {
    steps[taken++] = 10 + i;
    tide__os_change(&there_place, &here_place);
  }
}

static TIDE_OS_UNWATCHED void test_stacks(void) {
  char *stacks;
  const size_t bytes = 256 << 10;
  CHECK(tide__os_stacks_new(&stacks, 2, bytes) && tide__os_place_enter(&here_place));
  for (int round = 0; round < 2; round++) { /* the second time it begins anew */
    CHECK(tide__os_place_begin(&there_place, stacks ? stacks + 2 * bytes : NULL, bytes - 4096, on_own_stack));
    for (int i = 0; i < 3; i++) tide__os_change(&here_place, &there_place);
  }
  tide__os_place_leave(&here_place);
  tide__os_place_end(&there_place);
  tide__os_stacks_free(stacks, 2, bytes);
  CHECK(taken == 6 && steps[0] == 10 && steps[2] == 12 && steps[3] == 10 && steps[5] == 12);
}

/* ---- divisions ---- */

static void test_divisions(void) {
#if defined(__x86_64__) && (defined(__linux__) || defined(_WIN32))
  int quotient = 77, rest = 1, by = 0;
  tide__os_divides(true);
  __asm__ volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(by) : "cc");
  CHECK(quotient == 0);
  int64_t wide = INT64_MIN, high = -1, minus = -1;
  __asm__ volatile("idivq %2" : "+a"(wide), "+d"(high) : "r"(minus) : "cc");
  CHECK(wide == INT64_MIN && high == 0);
  quotient = 7, rest = 0;
  __asm__ volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "m"(by) : "cc");
  CHECK(quotient == 0);
  tide__os_divides(false);
#endif
}

/* Products whose sum shows a second rounding. */
static void test_arithmetic(void) {
  volatile double x = 0x1.eaa9ea06aabbp-1, y = 0x1.0c183f6120b32p-1, z = 0x1.ed60a605caa63p-1;
  volatile float a = 0x1.448c02p-1f, b = 0x1.8c593ep-1f, c = 0x1.f4f80cp-2f;
  CHECK(fma(x, y, z) == 0x1.7726699c9e938p+0 && fmaf(a, b, c) == 0x1.f5b8e2p-1f);
}

int main(int n, char **arguments) {
  if (n > 1) return as_child(n, arguments);
  CHECK(tide__os_file_of(self, sizeof self, NULL));
  CHECK(tide__os_folder_temporary(folder, sizeof folder, "tide-os") == 0);
  test_files();
  test_maps();
  test_streams();
  test_shares();
  test_programs();
  test_code_from_bytes();
  test_stacks();
  test_divisions();
  test_arithmetic();
  CHECK(!remove(in_folder("a")) && !remove(in_folder("c")) && !tide__os_folder_remove(folder));
  CHECK(tide__os_folder_remove(folder) == ENOENT);
  test_pages();
  test_aligned();
  test_machine();
  test_time();
  test_barrier();
  test_code();
  printf("os_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}

/* distributed_library.c: opens libtide_distributed.so, beside this code, in the folders around it, or where the loader
 * looks. And the end of one of several processes: it is never silent, since the others would wait for it.
 *
 * A script that has ended, or called os.exit(0), waits for the others to do the same, by an operation that is compared
 * as all are: ranks that wait in another one get an error with both lines. Another exit code ends all processes.
 *
 * Invariant: an open library stays mapped until the process ends, since MPI does not survive being unmapped. */
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "distributed.h"
#include "call/system.h"

static const char library_name[] = "libtide_distributed.so";
static const tide_distributed *opened;

static void *find_library(void) {
  static const char *const places[] = {"", "../lib/", "../lib/tide/", "../lib/lua/5.4/", "../../", "../../tide/"};
  char folder[PATH_MAX], path[PATH_MAX + 64];
  bool known = ltide_folder_of(folder, sizeof folder, (void *)(uintptr_t)ltide_distributed_open);
  for (size_t i = 0; known && i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s/%s%s", folder, places[i], library_name);
    if (ltide_cannot_use(path, false)) continue;
    return ltide_library_open(path);
  }
  return ltide_library_open(library_name);
}

const tide_distributed *ltide_distributed_opened(void) { return opened; }

const tide_distributed *ltide_distributed_open(void) {
  static const tide_distributed_host host = TIDE_DISTRIBUTED_HOST;
  char text[1024];
  if (opened) return opened;
  void *library = find_library();
  if (!library) {
    snprintf(text, sizeof text, "distributed: %s could not be opened: %s", library_name, ltide_library_problem());
    tide_error_set(TIDE_LIBRARY, text);
    return NULL;
  }
  tide_distributed_open_fn open = NULL;
  *(void **)&open = ltide_library_symbol(library, "tide_distributed_open");
  if (open) return opened = open(&host, TIDE_DISTRIBUTED_VERSION);
  tide_error_set(TIDE_LIBRARY, "distributed: libtide_distributed.so has no tide_distributed_open");
  return NULL;
}

/* {==== The end */

bool ltide_distributed_is_several(void) { return opened && opened->is_initialized() && opened->size(NULL) > 1; }
int ltide_distributed_rank(void) { return ltide_distributed_is_several() ? opened->rank(NULL) : -1; }

static void nap(double seconds) {
  time_t whole = (time_t)seconds;
  struct timespec t = {whole, (long)((seconds - (double)whole) * 1e9)};
  while (nanosleep(&t, &t)) continue; /* a launcher that ends all sends signals before */
}

void ltide_distributed_hold(const char *message) {
  if (!opened) return;
  if (message && opened->is_told_elsewhere(message))
    nap(5);
  else if (ltide_distributed_rank() > 0)
    nap(0.3);
}

void ltide_distributed_abort(int code) {
  if (!ltide_distributed_is_several()) return;
  fflush(NULL);
  nap(0.1);                  /* a launcher that ends all may drop what it has not read yet */
  ltide_end_within(2, code); /* a launcher that cannot be reached ends nothing */
  opened->abort(code);
}

/* Where the script is, if it still is. */
static int script_line(const char **file) {
  const char *source = "";
  bool known = ltide_last && ltide_last_epoch == atomic_load(&ltide_epoch);
  int line = known ? ltide_line(ltide_last, &source) : 0;
  const char *slash = strrchr(source, '/');
  *file = slash ? slash + 1 : *source == '@' || *source == '=' ? source + 1 : "chunk";
  return line > 0 ? line : 0;
}

static void leave(const char *file, int line) {
  tide_work *work = NULL;
  bool done = false;
  tide_status status = opened->leave(&work, file, line);
  while (status == TIDE_OK && !done) status = opened->poll(&done, work, NULL);
  if (status == TIDE_OK) {
    opened->release(work);
    opened->end();
    return;
  }
  char text[4096];
  snprintf(text, sizeof text, "%s", tide_error_get()->message);
  fflush(stdout);
  ltide_distributed_hold(text);
  fprintf(stderr, "tide: %s\n", text);
  ltide_distributed_abort(EXIT_FAILURE);
}

void ltide_distributed_leave(void) {
  fflush(stdout);
  if (opened && opened->is_initialized()) leave("", 0);
}

static void at_exit(int code, void *unused) {
  const char *file;
  if (!opened || !opened->is_initialized()) return;
  int line = script_line(&file);
  if (!code) return leave(file, line);
  if (!ltide_distributed_is_several()) return opened->end();
  ltide_distributed_hold(NULL);
  if (line)
    fprintf(stderr, "tide: %s:%d: rank %d has left with exit code %d\n", file, line, opened->rank(NULL), code);
  else
    fprintf(stderr, "tide: rank %d has left with exit code %d\n", opened->rank(NULL), code);
  ltide_distributed_abort(code);
}

#if defined(__GLIBC__)
static int register_end(void) { return on_exit(at_exit, NULL); }
#else
static void at_any_exit(void) { at_exit(EXIT_SUCCESS, NULL); }
static int register_end(void) { return atexit(at_any_exit); }
#endif

void ltide_distributed_tell(const char *text) { fprintf(stderr, "tide: rank %d: %s\n", opened->rank(NULL), text); }

void ltide_distributed_joined(void) {
  opened->set_teller(ltide_distributed_tell);
  static bool is_registered;
  if (!is_registered) is_registered = register_end() == 0;
}

void ltide_distributed_join(void) {
  const tide_distributed *d = ltide_distributed_open();
  if (d && d->is_launched() && d->init(NULL) == TIDE_OK) ltide_distributed_joined();
}

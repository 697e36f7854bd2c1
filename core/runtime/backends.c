/* backends.c: the table of backends, the only file that names one.
 *
 * The CPU is linked in. The accelerators are either simulated, when the configuration asks for them, or those of
 * libtide_cuda.so, which is opened when someone first asks about accelerators: not before, so a program that uses none
 * starts at once and needs no driver. Each device is opened when it is first used. Whatever goes wrong is kept, so that
 * asking again costs nothing and tells the same. A device that met a fault from which its driver does not recover is
 * lost: every later use fails with the first cause.
 *
 * The child of a fork has the open devices' handles and nothing behind them: no driver follows a fork. There the
 * devices are FORKED: they count as never used, nothing is freed through the driver, and every use says what happened.
 *
 * Invariants: the table and a device's state are published after what they stand for is complete; the state of a device
 * goes CLOSED, READY, LOST or FORKED and returns to CLOSED only when the runtime ends. */
#include "accelerator.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CLOSED, READY, LOST, FORKED };
enum { TEXT = 6144 };

static struct {
  pthread_mutex_t lock;
  _Atomic(const tide_backend *) table;
  _Atomic int count; /* > 0 once the accelerators are known */
  bool tried;        /* `problem` says why there are none, if count is 0 */
  tide_error problem;
  char problem_text[TEXT], problem_name[64];
  void *library; /* stays mapped until the process ends: drivers do not survive being unmapped */
  struct {
    _Atomic int state;
    tide_error cause;
    char text[TEXT], name[64];
  } device[TIDE_MAX_DEVICES];
} acc = {.lock = PTHREAD_MUTEX_INITIALIZER};

tide_backend_host tide__backend_host = {
    .struct_size = sizeof(tide_backend_host),
    .fail = tide__fail,
    .fail_index = tide__fail_index,
};

/* ---- finding libtide_cuda.so ---- */

static const char library_name[] = "libtide_cuda.so";

/* The folder that the code of this very function was loaded from; for the runner, that of the program. */
static bool own_folder(char *out, size_t size) {
  Dl_info info;
  char path[PATH_MAX];
  bool program = !dladdr((void *)(uintptr_t)own_folder, &info) || !info.dli_fname ||
                 !strcmp(info.dli_fname, program_invocation_name) || !strchr(info.dli_fname, '/');
  if (program) {
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return false;
    path[n] = 0;
  } else if (!realpath(info.dli_fname, path)) {
    return false;
  }
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = 0;
  return (size_t)snprintf(out, size, "%s", path) < size;
}

static tide_status open_path(const char *path) {
  acc.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (acc.library) return TIDE_OK;
  const char *why = dlerror();
  return tide__fail(TIDE_LIBRARY, "cuda: %s could not be opened: %s", path, why ? why : "no reason given");
}

static tide_status open_library(void) {
  const char *configured = tide__config()->cuda_path;
  if (configured && *configured) return open_path(configured);
  char folder[PATH_MAX] = "", path[PATH_MAX + 64];
  static const char *const places[] = {"", "../lib/", "../lib/tide/"};
  if (own_folder(folder, sizeof folder)) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
      snprintf(path, sizeof path, "%s/%s%s", folder, places[i], library_name);
      if (access(path, F_OK) == 0) return open_path(path);
    }
  }
  acc.library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (acc.library) return TIDE_OK;
  return tide__fail(
      TIDE_LIBRARY,
      "cuda: %s was not found beside %s, in ../lib, ../lib/tide or where the loader looks, expected a tide "
      "that was built with CUDA",
      library_name, folder[0] ? folder : "this program");
}

static tide_status open_cuda(const tide_backend **out) {
  if (!acc.library) TIDE_TRY(open_library());
  tide_backend_open_fn open = NULL;
  *(void **)&open = dlsym(acc.library, "tide_backend_cuda_open");
  if (!open)
    return tide__fail(TIDE_LIBRARY, "cuda: %s has no tide_backend_cuda_open, expected the library of tide %s",
                      library_name, TIDE_VERSION);
  /* The library may refuse with a reason of its own; this one stands if it gives none. */
  tide_status status =
      tide__fail(TIDE_LIBRARY, "cuda: %s is of another version, expected that of tide %s", library_name, TIDE_VERSION);
  const tide_backend *table = open(&tide__backend_host, TIDE_BACKEND_VERSION);
  if (!table) return tide_error_get()->status;
  if (table->version != TIDE_BACKEND_VERSION) return status;
  *out = table;
  return TIDE_OK;
}

/* ---- which accelerators there are ---- */

/* Of the simulated devices those that CUDA_VISIBLE_DEVICES leaves, by number or by uuid, as the driver would. */
static int pick_simulated(int *picked, int devices) {
  char text[TIDE_MAX_DEVICES][TIDE_UUID_TEXT];
  for (int d = 0; d < devices; d++) {
    unsigned char uuid[16];
    tide__sim_uuid(uuid, d);
    int at = snprintf(text[d], TIDE_UUID_TEXT, "GPU-");
    for (int i = 0; i < 16; i++)
      at += snprintf(text[d] + at, (size_t)(TIDE_UUID_TEXT - at), "%s%02x",
                     i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  }
  return tide__visible(picked, getenv("CUDA_VISIBLE_DEVICES"), text, devices);
}

static tide_status find_accelerators(void) {
  const tide_config *config = tide__config();
  const tide_backend *table = NULL;
  if (config->sim_devices > 0) {
    int picked[TIDE_MAX_DEVICES], visible = pick_simulated(picked, config->sim_devices);
    if (!visible)
      return tide__fail(
          TIDE_DEVICE, "cuda: no device was found, CUDA_VISIBLE_DEVICES leaves none of %d simulated ones, expected one",
          config->sim_devices);
    table = tide__backend_sim_open(&tide__backend_host, visible, picked, config->sim_memory, config->sim_seed);
    if (!table) return tide__fail(TIDE_MEMORY, "cuda: no host memory for the simulated devices");
  } else {
    TIDE_TRY(open_cuda(&table));
  }
  int count = 0;
  tide_status status = table->device_count(&count);
  if (status == TIDE_OK && count <= 0)
    status =
        tide__fail(TIDE_DEVICE, "cuda: no device was found, got 0, expected an NVIDIA GPU that its driver can see");
  if (status != TIDE_OK) {
    if (table->close) table->close();
    return status;
  }
  atomic_store_explicit(&acc.table, table, memory_order_release);
  atomic_store_explicit(&acc.count, count < TIDE_MAX_DEVICES ? count : TIDE_MAX_DEVICES, memory_order_release);
  return TIDE_OK;
}

static void keep_error(tide_error *to, char *text, char *name, const tide_error *from) {
  *to = *from;
  snprintf(text, TEXT, "%s", from->message);
  snprintf(name, 64, "%s", from->name ? from->name : "");
  to->message = text, to->name = name;
}

/* What one can do without a GPU. */
static void add_hint(char *text) {
  size_t n = strlen(text);
  snprintf(text + n, TEXT - n, "; TIDE_SIM_DEVICES=2, or tide --sim 2, simulates GPUs");
}

static tide_status find_once(void) {
  pthread_mutex_lock(&acc.lock);
  tide_status status = TIDE_OK;
  if (!acc.tried) {
    status = find_accelerators();
    if (status != TIDE_OK) {
      keep_error(&acc.problem, acc.problem_text, acc.problem_name, tide_error_get());
      if (tide__config()->sim_devices <= 0) add_hint(acc.problem_text);
      status = tide__fail_again(&acc.problem);
    }
    acc.tried = true;
  } else if (!atomic_load_explicit(&acc.count, memory_order_relaxed)) {
    status = tide__fail_again(&acc.problem);
  }
  pthread_mutex_unlock(&acc.lock);
  return status;
}

tide_status tide__device_count(int *out) {
  int count = atomic_load_explicit(&acc.count, memory_order_acquire);
  if (!count) {
    if (!tide__running()) return tide__fail(TIDE_STATE, "cuda: tide is not started, expected tide_init first");
    TIDE_TRY(find_once());
    count = atomic_load_explicit(&acc.count, memory_order_acquire);
  }
  *out = count;
  return TIDE_OK;
}

int tide__device_count_known(void) { return atomic_load_explicit(&acc.count, memory_order_acquire); }

const tide_backend *tide__accelerators(void) { return atomic_load_explicit(&acc.table, memory_order_acquire); }

/* Simulated devices are counted at no cost, and so are those that were counted before. */
tide_status tide__machine_list(char (*uuid)[TIDE_UUID_TEXT], int *count) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "cuda: tide is not started, expected tide_init first");
  if (tide__config()->sim_devices > 0) return tide__fail(TIDE_SUPPORT, "cuda: simulated devices have no such list");
  const tide_backend *table = NULL;
  pthread_mutex_lock(&acc.lock);
  tide_status status = open_cuda(&table);
  pthread_mutex_unlock(&acc.lock);
  TIDE_TRY(status);
  if (!table->machine_list) return tide__fail(TIDE_SUPPORT, "cuda: the library cannot list devices");
  return table->machine_list(uuid, count);
}

/* ---- devices ---- */

static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;

/* Only the forking thread lives on, so what another one may have locked is made new. */
static void child_after_fork(void) {
  static const tide_error cause = {
      .status = TIDE_STATE,
      .device = TIDE_CPU,
      .message = "cuda: this process was forked from one that had used the device, which no driver follows, expected a "
                 "fork before the first use, or a program started anew",
      .name = ""};
  pthread_mutex_init(&acc.lock, NULL);
  pthread_mutex_init(&lost_lock, NULL);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (atomic_load_explicit(&acc.device[d].state, memory_order_relaxed) == CLOSED) continue;
    keep_error(&acc.device[d].cause, acc.device[d].text, acc.device[d].name, &cause);
    acc.device[d].cause.device = d;
    atomic_store_explicit(&tide__backends_ready[d + 1], NULL, memory_order_relaxed);
    atomic_store_explicit(&acc.device[d].state, FORKED, memory_order_relaxed);
  }
}

static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static tide__on_open_fn on_open;

void tide__device_on_first_open(tide__on_open_fn fn) { on_open = fn; }

static void first_open(void) {
  pthread_atfork(NULL, NULL, child_after_fork);
  on_open();
}

static tide_status open_device(int device) {
  int count;
  TIDE_TRY(tide__device_count(&count));
  if (device >= count)
    return tide__fail(TIDE_DEVICE, "cuda: no such device, got %d, expected 0 to %d", device, count - 1);
  tide_error cause;
  if (tide__device_lost(&cause, device)) return tide__fail_again(&cause);
  const tide_backend *table = atomic_load_explicit(&acc.table, memory_order_acquire);
  bool opened = false;
  pthread_once(&open_once, first_open);
  pthread_mutex_lock(&acc.lock);
  tide_status status = TIDE_OK;
  if (atomic_load_explicit(&acc.device[device].state, memory_order_relaxed) == CLOSED) {
    status = table->device_open(device);
    opened = status == TIDE_OK;
    if (opened) atomic_store_explicit(&tide__backends_ready[device + 1], table, memory_order_release);
    if (opened) atomic_store_explicit(&acc.device[device].state, READY, memory_order_release);
  }
  pthread_mutex_unlock(&acc.lock);
  return opened ? tide__opened(device) : status;
}

_Atomic(const tide_backend *) tide__backends_ready[TIDE_MAX_DEVICES + 1] = {&tide__backend_cpu};

tide_status tide__backend_slow(const tide_backend **out, int device) {
  if (device >= TIDE_MAX_DEVICES)
    return tide__fail(TIDE_DEVICE, "cuda: no such device, got %d, expected less than %d", device, TIDE_MAX_DEVICES);
  if (atomic_load_explicit(&acc.device[device].state, memory_order_acquire) != READY) TIDE_TRY(open_device(device));
  *out = atomic_load_explicit(&acc.table, memory_order_acquire);
  return TIDE_OK;
}

const tide_backend *tide__backend_peek(int device) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return NULL;
  int state = atomic_load_explicit(&acc.device[device].state, memory_order_acquire);
  if (state == CLOSED || state == FORKED) return NULL;
  return atomic_load_explicit(&acc.table, memory_order_acquire);
}

bool tide__device_any_open(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (tide__backend_peek(d)) return true;
  return false;
}

static struct { /* lost_lock guards it */
  tide_device_lost_fn fn;
  void *user;
} on_lost;

void tide_device_on_lost(tide_device_lost_fn fn, void *user) {
  pthread_mutex_lock(&lost_lock);
  on_lost.fn = fn, on_lost.user = user;
  pthread_mutex_unlock(&lost_lock);
}

/* May be called from any thread and, by a backend, inside any of its slots. The cause is written before the state says
 * that it can be read; a second fault finds the state taken and changes nothing. */
void tide__device_set_lost(int device, const tide_error *cause, void (*first)(int device)) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return;
  pthread_mutex_lock(&lost_lock);
  if (atomic_load_explicit(&acc.device[device].state, memory_order_relaxed) < LOST) {
    keep_error(&acc.device[device].cause, acc.device[device].text, acc.device[device].name, cause);
    first(device);
    atomic_store_explicit(&tide__backends_ready[device + 1], NULL, memory_order_release);
    atomic_store_explicit(&acc.device[device].state, LOST, memory_order_release);
    if (on_lost.fn) on_lost.fn(on_lost.user, device, &acc.device[device].cause);
  }
  pthread_mutex_unlock(&lost_lock);
}

bool tide__device_lost(tide_error *cause, int device) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return false;
  if (atomic_load_explicit(&acc.device[device].state, memory_order_acquire) < LOST) return false;
  if (cause) *cause = acc.device[device].cause;
  return true;
}

/* Afterwards the accelerators are found and opened anew when someone uses them. */
void tide__backends_close(bool reset, void (*closed)(bool all)) {
  pthread_mutex_lock(&acc.lock);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) atomic_store(&tide__backends_ready[d + 1], NULL);
  const tide_backend *table = atomic_exchange(&acc.table, NULL);
  if (table && table->close) table->close();
  closed(!reset);
  for (int d = 0; table && reset && table->device_reset && d < TIDE_MAX_DEVICES; d++)
    if (atomic_load(&acc.device[d].state) != CLOSED) table->device_reset(d);
  atomic_store(&acc.count, 0);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) atomic_store(&acc.device[d].state, CLOSED);
  acc.tried = false;
  pthread_mutex_unlock(&acc.lock);
}

/* files_test.c: broken files of arrays. The readers get every file of spec/corpus, and random changes of them: whatever
 * they hold, a reader gives an array or an error that names the file, touches no memory that is not its own (which the
 * sanitizers' build watches) and asks for none that the file cannot fill.
 *
 * Each file is also cut at each length, and each byte of a good one is changed. Every outcome (names, dtypes, sizes,
 * strides, values, error texts) goes into a hash, which spec/corpus/outcomes.txt lists. files_test --record writes the
 * list, --print shows the outcomes.
 *
 * files_test [seconds [seed [folder]]]: changes for that long instead of a fixed number; a file on which a check fails
 * is kept in the folder. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "tide/archive.h"

enum { MOST_FILES = 200, ROOM = 1 << 16, ROUNDS = 4000 };

static struct file {
  char name[256];
  unsigned char *bytes;
  size_t size;
} files[MOST_FILES];
static int count;
static char path[64];
static size_t largest; /* allocation of a tensor since it was set to 0 */

static void *take(void *user, size_t bytes, size_t align) {
  (void)user;
  if (bytes > largest) largest = bytes;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void give(void *user, void *ptr, size_t bytes) {
  (void)user, (void)bytes;
  free(ptr);
}

static uint64_t state;
static uint64_t draw(uint64_t n) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return n ? state % n : 0;
}

/* ---- reading ---- */

/* What the readers give of the file at hand. */
static struct {
  bool on;
  char text[4096];
} outcome;

static void put(const char *text) {
  size_t n = strlen(outcome.text);
  if (outcome.on) snprintf(outcome.text + n, sizeof outcome.text - n, "%s", text);
}

static void put_error(void) {
  const char *message = tide_error_get()->message, *at = strstr(message, path);
  char text[1024];
  snprintf(text, sizeof text, " | %.*s*%s", (int)(at - message), message, at + strlen(path));
  put(text);
}

static void look(const tide_tensor *x) {
  size_t bytes = (size_t)tide_tensor_numel(x) * tide_dtype_size(tide_tensor_dtype(x));
  unsigned char *copy = malloc(bytes + 1);
  unsigned sum = 0;
  char text[16 + 48 * TIDE_MAX_DIMS + 16];
  OK(tide_read(copy, x));
  for (size_t i = 0; i < bytes; i++) {
    sum = sum * 31 + copy[i];
    if (tide_tensor_dtype(x) == TIDE_BOOL) CHECK(copy[i] <= 1);
  }
  free(copy);
  snprintf(text, sizeof text, " | %s", tide_dtype_name(tide_tensor_dtype(x)));
  for (int d = 0; d < tide_tensor_ndim(x); d++)
    snprintf(text + strlen(text), 48, "%c%lld/%lld", d ? ',' : ' ', (long long)tide_tensor_size(x)[d],
             (long long)tide_tensor_stride(x)[d]);
  snprintf(text + strlen(text), 16, " #%x", sum);
  put(text);
}

static bool failed_well(tide_status status) {
  if (status == TIDE_OK) return true;
  CHECK(status == TIDE_FILE && strstr(tide_error_get()->message, path));
  if (status == TIDE_FILE)
    put_error();
  else
    printf("%s\n", tide_error_get()->message);
  return false;
}

static void read_npy(void) {
  tide_tensor *x = NULL;
  if (!failed_well(tide_npy_load(&x, path))) return;
  look(x);
  tide_tensor_release(x);
}

static void read_archive(tide_archive_kind kind) {
  tide_archive *a = NULL;
  if (!failed_well(tide_archive_open(&a, kind, path, 0))) return;
  for (int64_t i = 0; i < tide_archive_count(a); i++) {
    tide_tensor *x = NULL;
    put(" | "), put(tide_archive_name(a, i));
    CHECK(tide_archive_name(a, i) && (kind == TIDE_NPZ) == !tide_archive_dtype(a, i));
    if (!failed_well(tide_archive_tensor(&x, a, i))) continue;
    look(x);
    tide_tensor_release(x);
  }
  for (int64_t i = 0; i < tide_archive_notes(a); i++) {
    const char *value = NULL;
    CHECK(tide_archive_note(&value, a, i) && value);
    put(" | note "), put(value);
  }
  tide_archive_free(a);
}

static void write_file(const char *where, const unsigned char *bytes, size_t size) {
  FILE *f = fopen(where, "wb");
  CHECK(f && fwrite(bytes, 1, size, f) == size);
  if (f) fclose(f);
}

static void try(const unsigned char *bytes, size_t size, const char *name) {
  write_file(path, bytes, size);
  largest = 0;
  if (!name || strstr(name, ".npy")) read_npy();
  if (!name || strstr(name, ".npz")) read_archive(TIDE_NPZ);
  if (!name || strstr(name, ".safe")) read_archive(TIDE_SAFETENSORS);
  CHECK(largest <= 2100 * size + 65536); /* deflate makes at most 1032 bytes of one, and two of uint16 become four */
}

/* ---- files ---- */

static void load(const char *folder) {
  DIR *d = opendir(folder);
  CHECK(d);
  for (struct dirent *e; d && (e = readdir(d)) && count < MOST_FILES;) {
    char name[1024];
    struct file *f = &files[count];
    if (*e->d_name == '.') continue;
    snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
    FILE *in = fopen(name, "rb");
    CHECK(in);
    if (!in) continue;
    snprintf(f->name, sizeof f->name, "%s", e->d_name);
    f->bytes = malloc(ROOM), f->size = fread(f->bytes, 1, ROOM, in);
    fclose(in);
    count++;
  }
  if (d) closedir(d);
}

static void replay(void) {
  for (int i = 0; i < count; i++) {
    bool good = !strncmp(files[i].name, "good", 4);
    tide_tensor *x = NULL;
    tide_archive *a = NULL;
    try(files[i].bytes, files[i].size, NULL);
    tide_status status = strstr(files[i].name, ".npy")   ? tide_npy_load(&x, path)
                         : strstr(files[i].name, ".npz") ? tide_archive_open(&a, TIDE_NPZ, path, 0)
                                                         : tide_archive_open(&a, TIDE_SAFETENSORS, path, 0);
    for (int64_t k = 0; a && k < tide_archive_count(a) && status == TIDE_OK; k++) {
      status = tide_archive_tensor(&x, a, k);
      if (status == TIDE_OK && k + 1 < tide_archive_count(a)) tide_tensor_release(x), x = NULL;
    }
    if ((status == TIDE_OK) != good) printf("%s: %s\n", files[i].name, good ? tide_error_get()->message : "was read");
    CHECK((status == TIDE_OK) == good);
    tide_tensor_release(x);
    tide_archive_free(a);
  }
}

/* ---- each length, each byte ---- */

static const char outcomes[] = "spec/corpus/outcomes.txt";
enum { MOST_BYTES = 800 }; /* of a file, from its begin */

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static uint64_t hash;

/* Adds what the file at hand gives to the hash. */
static void add_outcome(const unsigned char *bytes, size_t size, const struct file *f, size_t n, bool print) {
  outcome.on = true, *outcome.text = 0;
  try(bytes, size, f->name);
  outcome.on = false;
  for (const char *c = outcome.text; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  if (print) printf("%s %zu%s\n", f->name, n, outcome.text);
}

/* Reads or writes a line of the list: a file, what is done with it, the hash of all outcomes. */
static void end_outcomes(FILE *list, bool record, const struct file *f, const char *how) {
  char name[256] = "", done[16] = "";
  unsigned long long expected = 0;
  if (record) {
    fprintf(list, "%s %s %016llx\n", f->name, how, (unsigned long long)hash);
  } else if (fscanf(list, "%255s %15s %llx", name, done, &expected) != 3 || strcmp(name, f->name) != 0 ||
             strcmp(done, how) != 0 || expected != hash) {
    printf("%s %s: other outcomes than in %s; --print shows all\n", f->name, how, outcomes), failures++;
  }
  hash = 0xcbf29ce484222325u;
}

static void check_outcomes(bool record, bool print) {
  static const int by[] = {-1, 1, 0x80};
  static const char *const how[] = {"byte-1", "byte+1", "byte+128"};
  FILE *list = fopen(outcomes, record ? "w" : "r");
  CHECK(list);
  hash = 0xcbf29ce484222325u;
  for (int i = 0; list && i < count; i++) {
    const struct file *f = &files[i];
    size_t end = f->size < MOST_BYTES ? f->size : MOST_BYTES;
    add_outcome(f->bytes, f->size, f, f->size, print);
    end_outcomes(list, record, f, "whole");
    for (size_t n = 0; n < end; n++) add_outcome(f->bytes, n, f, n, print);
    end_outcomes(list, record, f, "cut");
    for (int k = 0; k < 3 && !strncmp(f->name, "good", 4); k++) {
      for (size_t n = 0; n < end; n++) {
        f->bytes[n] = (unsigned char)(f->bytes[n] + by[k]);
        add_outcome(f->bytes, f->size, f, n, print);
        f->bytes[n] = (unsigned char)(f->bytes[n] - by[k]);
      }
      end_outcomes(list, record, f, how[k]);
    }
  }
  if (list) fclose(list);
}

/* ---- changes ---- */

static uint64_t odd_number(size_t size) {
  const uint64_t list[] = {0,          1,          255,        256,        0xffff,
                           0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                           UINT64_MAX, size,       size - 1,   size + 1,   size / 2};
  return list[draw(sizeof list / sizeof *list)] + (draw(4) ? 0 : draw(3) - 1);
}

static size_t change(unsigned char *b, size_t size) {
  size_t at = draw(size + 1), n = 1 + draw(draw(2) ? 8 : 200);
  uint64_t number = odd_number(size);
  const struct file *other = &files[draw((uint64_t)count)];
  if (at == size && size) at--;
  if (n > size - at) n = size - at;
  switch (draw(9)) {
  case 0: b[at] ^= (unsigned char)(1u << draw(8)); break;
  case 1: b[at] = (unsigned char)draw(256); break;
  case 2: b[at] = (unsigned char)"0123456789{}[](),:\"'\\<>|"[draw(24)]; break;
  case 3: memcpy(b + at, &number, n < 8 ? n : 8); break;
  case 4: return draw(4) ? size - draw(16) % (size + 1) : at;
  case 5: memmove(b + at, b + at + n, size - at - n); return size - n;
  case 6:
    if (size + n > ROOM) break;
    memmove(b + at + n, b + at, size - at);
    return size + n;
  case 7: memmove(b + draw(size - n + 1), b + at, n); break;
  default:
    if (n > other->size) n = other->size;
    memcpy(b + at, other->bytes + draw(other->size - n + 1), n);
  }
  return size;
}

static void keep(const char *folder, int number, const unsigned char *bytes, size_t size) {
  char name[300];
  snprintf(name, sizeof name, "%s/failed-%d", folder, number);
  write_file(name, bytes, size);
}

int main(int argc, char **argv) {
  bool is_record = argc > 1 && !strcmp(argv[1], "--record");
  double seconds = argc > 1 ? atof(argv[1]) : 0;
  const tide_config config = {.struct_size = sizeof config, .alloc = take, .free = give};
  static unsigned char bytes[ROOM];
  time_t end = time(NULL) + (time_t)seconds;
  int64_t round = 0;
  state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  OK(tide_init(&config));
  /* In memory, where there is such a place. */
  snprintf(path, sizeof path, "%s/files_test-%ld", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (long)getpid());
  load("spec/corpus/npy"), load("spec/corpus/npz"), load("spec/corpus/safetensors");
  CHECK(count > 20);
  qsort(files, (size_t)count, sizeof *files, by_name);
  replay();
  check_outcomes(is_record, argc > 1 && !strcmp(argv[1], "--print"));
  for (; count && (seconds > 0 ? time(NULL) < end : round < ROUNDS); round++) {
    const struct file *f = &files[draw((uint64_t)count)];
    size_t size = f->size;
    int before = failures;
    memcpy(bytes, f->bytes, size);
    for (uint64_t n = 1 + draw(4); n && size; n--) size = change(bytes, size);
    try(bytes, size, NULL);
    if (failures > before && argc > 3) keep(argv[3], (int)round, bytes, size);
  }
  remove(path);
  for (int i = 0; i < count; i++) free(files[i].bytes);
  tide_shutdown();
  printf("%s: %lld changed files, %d failures\n", __FILE__, (long long)round, failures);
  return failures != 0;
}

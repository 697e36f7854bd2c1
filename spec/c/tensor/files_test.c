/* files_test.c: broken files of arrays. The readers get every file of spec/corpus, and random changes of them: whatever
 * they hold, a reader gives an array or an error that names the file, touches no memory that is not its own (which the
 * sanitizers' build watches) and asks for none that the file cannot fill.
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

static void look(const tide_tensor *x) {
  size_t bytes = (size_t)tide_tensor_numel(x) * tide_dtype_size(tide_tensor_dtype(x));
  unsigned char *copy = malloc(bytes + 1);
  unsigned sum = 0;
  OK(tide_read(copy, x));
  for (size_t i = 0; i < bytes; i++) {
    sum += copy[i];
    if (tide_tensor_dtype(x) == TIDE_BOOL) CHECK(copy[i] <= 1);
  }
  free(copy);
  CHECK(sum < UINT32_MAX); /* it was read */
}

static bool failed_well(tide_status status) {
  if (status == TIDE_OK) return true;
  CHECK(status == TIDE_FILE && strstr(tide_error_get()->message, path));
  if (status != TIDE_FILE) printf("%s\n", tide_error_get()->message);
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
    CHECK(tide_archive_name(a, i) && (kind == TIDE_NPZ) == !tide_archive_dtype(a, i));
    if (!failed_well(tide_archive_tensor(&x, a, i))) continue;
    look(x);
    tide_tensor_release(x);
  }
  for (int64_t i = 0; i < tide_archive_notes(a); i++) {
    const char *value = NULL;
    CHECK(tide_archive_note(&value, a, i) && value);
  }
  tide_archive_free(a);
}

static void write_file(const char *where, const unsigned char *bytes, size_t size) {
  FILE *f = fopen(where, "wb");
  CHECK(f && fwrite(bytes, 1, size, f) == size);
  if (f) fclose(f);
}

static void try(const unsigned char *bytes, size_t size) {
  write_file(path, bytes, size);
  largest = 0;
  read_npy();
  read_archive(TIDE_NPZ);
  read_archive(TIDE_SAFETENSORS);
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
    try(files[i].bytes, files[i].size);
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
  replay();
  for (; count && (seconds > 0 ? time(NULL) < end : round < ROUNDS); round++) {
    const struct file *f = &files[draw((uint64_t)count)];
    size_t size = f->size;
    int before = failures;
    memcpy(bytes, f->bytes, size);
    for (uint64_t n = 1 + draw(4); n && size; n--) size = change(bytes, size);
    try(bytes, size);
    if (failures > before && argc > 3) keep(argv[3], (int)round, bytes, size);
  }
  remove(path);
  for (int i = 0; i < count; i++) free(files[i].bytes);
  tide_shutdown();
  printf("%s: %lld changed files, %d failures\n", __FILE__, (long long)round, failures);
  return failures != 0;
}
